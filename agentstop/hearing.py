"""What a provider says of an operation besides its answer to the submit: each is kept, of progress the newest.

It may come many times, late, and after the call has ended. Nothing of it raises or waits for the one who hands it in.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from agentstop.providers.base import Answer
from agentstop.sending import sender

logger = logging.getLogger(__name__)

PACE = 0.25  # seconds between two receipts of progress
MOST = 100  # other answers of one submit that are kept: one that never ends must not fill the database

Keep = Callable[[Answer], Coroutine[Any, Any, Any]]


class Hearing:
    """Takes what is said of one submit; `keep` stores it."""

    def __init__(self, keep: Keep) -> None:
        self._keep = keep
        self._newest: Answer | None = None  # progress that is not stored yet
        self._storing = False
        self._others = 0

    def __call__(self, answer: Answer) -> None:
        try:
            self._take(answer)
        except Exception:
            logger.exception("what a provider said could not be kept", extra={"action": "hearing_failed"})

    def _take(self, answer: Answer) -> None:
        if answer.progress is not None:
            self._newest = answer
            if not self._storing:
                self._storing = True
                sender().start(self._store_progress)
            return
        self._others += 1
        if self._others <= MOST:
            sender().start(lambda: self._stored(answer))
        elif self._others == MOST + 1:
            logger.warning("a provider answers without end", extra={"action": "hearing_ended"})

    async def _store_progress(self) -> None:
        try:
            while (answer := self._newest) is not None:
                self._newest = None
                await self._stored(answer)
                await asyncio.sleep(PACE)
        finally:
            self._storing = False

    async def _stored(self, answer: Answer) -> None:
        try:
            await self._keep(answer)
        except Exception:
            logger.exception("what a provider said could not be kept", extra={"action": "hearing_failed"})
