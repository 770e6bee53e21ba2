"""Where an MCP server is, as settings say it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string
from mcp import StdioServerParameters
from mcp.server import MCPServer, Server

from agentstop.providers.mcp_link import Where


def where(
    url: str,
    command: Sequence[str],
    server: str | MCPServer | Server[Any],
    env: Mapping[str, str] | None,
    cwd: str | None,
) -> Where:
    """The address, the program, or the server itself; ImproperlyConfigured unless it is one of these."""
    if [bool(url), bool(command), server != ""].count(True) != 1:
        raise ImproperlyConfigured("McpProvider needs one of url=, command= and server=.")
    if url:
        return _address(url)
    return _program(command, env, cwd) if command else _here(server)


def _address(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.fragment:
        raise ImproperlyConfigured(
            "McpProvider url must be an http or https address without login or fragment; credentials go into headers."
        )
    return url


def _program(command: Sequence[str], env: Mapping[str, str] | None, cwd: str | None) -> StdioServerParameters:
    if isinstance(command, str):
        raise ImproperlyConfigured(f"McpProvider command is {command!r}: pass a list, the program first.")
    program, *arguments = command
    return StdioServerParameters(command=program, args=arguments, env=dict(env or {}) or None, cwd=cwd)


def _here(server: str | MCPServer | Server[Any]) -> MCPServer | Server[Any]:
    try:
        found = import_string(server) if isinstance(server, str) else server
    except ImportError as error:
        raise ImproperlyConfigured(f"McpProvider server is {server!r}, which cannot be imported: {error}") from error
    if not isinstance(found, MCPServer | Server):
        raise ImproperlyConfigured(f"McpProvider server is {server!r}: it must be an MCPServer or Server of the SDK.")
    return found
