"""A server that speaks bytes, for replies that no well-behaved server gives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@dataclass
class Connection:
    """One accepted connection: what it read so far, and ways to answer."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    read: bytes = b""

    async def request(self) -> bytes:
        """The next whole request; empty when the client has closed."""
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as error:
            self.read += error.partial
            return b""
        length = next(
            (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
        )
        whole = head + await self.reader.readexactly(length)
        self.read += whole
        return whole

    async def say(self, reply: bytes) -> None:
        self.writer.write(reply)
        await self.writer.drain()

    def reset(self) -> None:
        self.writer.transport.abort()


@dataclass
class RawServer:
    """Where it listens, and every connection that it accepted."""

    port: int = 0
    connections: list[Connection] = field(default_factory=list)
    ended: asyncio.Queue[bytes] = field(default_factory=asyncio.Queue)  # all bytes of a connection, when it is over
    errors: list[Exception] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"


Handler = Callable[[Connection], Awaitable[None]]


def saying(reply: bytes) -> Handler:
    """Answers each request with these bytes and keeps the connection open."""

    async def handler(connection: Connection) -> None:
        while await connection.request():
            await connection.say(reply)

    return handler


def saying_once(reply: bytes) -> Handler:
    """Answers one request with these bytes and closes."""

    async def handler(connection: Connection) -> None:
        if await connection.request():
            await connection.say(reply)

    return handler


@asynccontextmanager
async def raw_server(handler: Handler) -> AsyncIterator[RawServer]:
    """Serve with this handler; its errors fail the test at the end."""
    server = RawServer()
    tasks: set[asyncio.Task[None]] = set()

    async def one(connection: Connection) -> None:
        try:
            await handler(connection)
        except (ConnectionError, asyncio.CancelledError):
            pass  # the client left, or the test is over
        except Exception as error:
            server.errors.append(error)
        finally:
            connection.writer.close()
            server.ended.put_nowait(connection.read)

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(reader, writer)
        server.connections.append(connection)
        task = asyncio.create_task(one(connection))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    listening = await asyncio.start_server(accept, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if server.errors:
            raise server.errors[0]
