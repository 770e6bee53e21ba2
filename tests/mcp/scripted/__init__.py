"""An MCP server by hand, in both revisions and over both transports, that plays what it is asked to. No SDK in it."""
