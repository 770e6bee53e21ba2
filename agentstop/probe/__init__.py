"""Asks a real MCP server what its cancelling really does, with the evidence for each answer."""
