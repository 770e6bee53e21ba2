"""Both sides of a tool that runs in a process of its own."""
