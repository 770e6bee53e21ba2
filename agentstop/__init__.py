"""A Stop button for AI agents that tells the truth. Import from the modules; this file only names the version."""

__version__ = "0.1.0"
