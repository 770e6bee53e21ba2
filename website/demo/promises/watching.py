"""A page that is kept up to date by its websocket, as a browser does it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from agentstop.panel import prefix
from website.demo.promises import panel
from website.demo.promises.panel import Broken, Seen
from website.demo.promises.tree import parse
from website.demo.promises.visitor import PATIENCE, Visitor


class Watching:
    """A context manager: the page as it was loaded, with all frames that came since."""

    def __init__(self, visitor: Visitor, task: int) -> None:
        self.task, self.frames = task, 0
        self._page = visitor.page(f"/tasks/{task}/")
        self._shown = [panel.read(self._page, task)]  # what was shown since the last thing that was waited for
        self._changed = threading.Condition()
        self._socket = open_socket(visitor, self._address())
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()
        self.until("the first frame", lambda seen: self.frames > 0)

    def __enter__(self) -> Watching:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()
        self._thread.join(PATIENCE)

    @property
    def seen(self) -> Seen:
        with self._changed:
            return panel.read(self._page, self.task)

    def until(self, what: str, holds: Callable[[Seen], bool]) -> Seen:
        """Wait until what was shown holds, if only for a moment; Broken, with what is shown, where it never did."""
        with self._changed:
            found = self._changed.wait_for(lambda: next(filter(holds, self._shown), None), PATIENCE)
            if found is None:
                raise Broken(f"never shown: {what}. Shown at the end: {self._shown[-1]}")
            del self._shown[: self._shown.index(found)]
            return found

    def _address(self) -> str:
        section = self._page.by_id(prefix(self.task))
        return section.get("data-agentstop-socket") if section is not None else ""

    def _listen(self) -> None:
        try:
            for frame in self._socket:
                with self._changed:
                    for piece in parse(str(frame)).children:
                        if not isinstance(piece, str):
                            self._page.swap(piece)
                    self.frames += 1
                    self._shown.append(panel.read(self._page, self.task))
                    self._changed.notify_all()
        except ConnectionClosed:
            pass


def open_socket(visitor: Visitor, address: str, *, origin: str = "") -> ClientConnection:
    """A websocket with the session of this visitor, from the site's own page unless another origin is named."""
    return connect(
        visitor.address.replace("http", "ws", 1) + address,
        origin=Origin(origin or visitor.address),
        additional_headers={"Cookie": visitor.cookies},
        proxy=None,
        open_timeout=PATIENCE,
        close_timeout=5,
    )


def close_code(visitor: Visitor, address: str) -> int:
    """The code with which the server closes a websocket that it does not want to serve."""
    with open_socket(visitor, address) as socket:
        try:
            socket.recv(timeout=PATIENCE)
        except ConnectionClosed as closed:
            return closed.rcvd.code if closed.rcvd is not None else 0
    return 0
