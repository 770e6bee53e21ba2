"""A server in a process of its own that answers each request with a little JSON; prints its port.

python -m bench.http.server
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from bench.gate.run import ROOT

BODY = b'{"id": "ch_1", "status": "succeeded"}'
HEAD = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(BODY)}\r\n\r\n".encode()


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Requests of one connection, one after another."""
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            lengths = [line[15:] for line in head.split(b"\r\n") if line.startswith(b"content-length:")]
            await reader.readexactly(int(lengths[0]) if lengths else 0)
            writer.write(HEAD + BODY)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main() -> None:
    listening = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(listening.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)  # until whoever started it is gone


@contextmanager
def serving() -> Iterator[str]:
    """Its address, for the length of a block."""
    command = [sys.executable, "-m", "bench.http.server"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdin is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        process.stdin.close()


if __name__ == "__main__":
    asyncio.run(main())
