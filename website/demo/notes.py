"""An MCP server to play with, with the official SDK, over streamable HTTP: python -m website.demo.notes FOLDER PORT

What its tools do they write down themselves, in FOLDER; a page at its address shows that. Port 0: any that is free.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from pathlib import Path

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import ToolAnnotations
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse

from website.demo.notes_log import DID_READ, DID_WRITE, READY, NotesLog

HOST = "127.0.0.1"
SOURCES = 4
LOOK = 0.05  # seconds between two looks at what is held


def server_of(log: NotesLog, address: str) -> MCPServer:
    """Two tools: one that gives up when it is asked to, and one that cannot be interrupted."""
    server = MCPServer("notes", log_level="WARNING")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    async def read_sources(label: str, text: str, ctx: Context, seconds: float = 2.0) -> dict[str, str]:
        """Reads a few sources, and says how far it is."""
        log.note("began to read", label, text)
        try:
            for number in range(SOURCES):
                await ctx.report_progress(number, SOURCES)
                await asyncio.sleep(seconds / SOURCES)
                while log.is_held(f"read:{text}"):
                    await asyncio.sleep(LOOK)
        except asyncio.CancelledError:
            log.note("gave up", label, text)
            raise
        log.note(DID_READ, label, text)
        return {"text": f"{SOURCES} sources on {text}", "link": f"{address}/"}

    @server.tool()
    def write_note(label: str, text: str, link: str = "", seconds: float = 5.0) -> dict[str, str]:
        """Writes a note: a plain function, which nothing interrupts."""
        log.note("began to write", label, text)
        time.sleep(seconds)
        while log.is_held(f"note:{text}"):
            time.sleep(LOOK)
        log.note(DID_WRITE, label, text)
        return {"text": text, "link": f"{address}/"}

    async def page(request: Request) -> PlainTextResponse:
        told = [str(each) for each in log.of(request.query_params.get("task", ""))]
        return PlainTextResponse("\n".join(told) or "Nothing was done.")

    async def ledger(request: Request) -> JSONResponse:
        told = log.of(request.query_params.get("task", ""))
        return JSONResponse([{"at": each.at.isoformat(), "what": each.what, "text": each.text} for each in told])

    server.custom_route("/", methods=["GET"])(page)
    server.custom_route("/ledger", methods=["GET"])(ledger)
    return server


def main(folder: str, port: str) -> None:
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HOST, int(port)))
        listening.listen(socket.SOMAXCONN)
        address = f"http://{HOST}:{listening.getsockname()[1]}"
        app = server_of(NotesLog(Path(folder)), address).streamable_http_app()
        sys.stdout.write(f"{READY}{address}\n")
        sys.stdout.flush()
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
        asyncio.run(uvicorn.Server(config).serve(sockets=[listening]))


if __name__ == "__main__":
    main(*sys.argv[1:])
