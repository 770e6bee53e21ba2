"""The lines that an MCP server over stdio says, none longer than the cap: the SDK would keep one of any length.

The SDK reads the server's output by the codec that its parameters name, and offers no other place below its buffer.
So this is a codec: UTF-8, in whole lines, without those that are too long.
"""

from __future__ import annotations

import codecs
import logging
from contextvars import ContextVar

logger = logging.getLogger(__name__)

NAME = "agentstop_mcp_lines"
cap: ContextVar[int] = ContextVar("cap")  # bytes of one line; of the connection whose task reads


class Lines(codecs.IncrementalDecoder):
    """Gives whole lines; one that is longer than the cap is read to its end, not kept, and left out."""

    def __init__(self, errors: str = "strict") -> None:
        super().__init__(errors)
        self._cap = cap.get()
        self.reset()

    def reset(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    @property
    def held(self) -> int:
        """Bytes of the line that has not ended yet."""
        return sum(map(len, self._parts))

    def decode(self, data: object, final: bool = False) -> str:
        *ends, rest = bytes(data).split(b"\n")  # type: ignore[call-overload]  # any buffer, as for every codec
        whole = []
        for end in ends:
            self._take(end)
            whole.append(self._line())
        self._take(rest)
        return "".join(whole)

    def _take(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._cap:
            self._parts.clear()
        elif piece:
            self._parts.append(piece)

    def _line(self) -> str:
        size, line = self._size, b"".join(self._parts)
        self.reset()
        if size > self._cap:
            logger.warning("a message of an MCP server is too long: it was not kept", extra={"action": "mcp_too_long"})
            return ""
        return line.decode("utf-8", self.errors) + "\n"


def _find(name: str) -> codecs.CodecInfo | None:
    if name != NAME:
        return None
    plain = codecs.lookup("utf-8")
    return codecs.CodecInfo(plain.encode, plain.decode, incrementaldecoder=Lines, name=NAME)


codecs.register(_find)
