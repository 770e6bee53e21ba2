"""Changes of a task over a websocket, as JSON: what the long poll tells, pushed; nothing that comes in is used."""

from __future__ import annotations

import asyncio
import json
import logging
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.contrib.auth import get_user_model
from django.utils import timezone, translation
from ninja.responses import NinjaJSONEncoder

from agentstop import sessions, tokens
from agentstop.api import shapes, telling
from agentstop.api.guesses import guesses
from agentstop.exceptions import TaskNotFound
from agentstop.live import GAP, NOT_FOUND, TRY_AGAIN
from agentstop.sending import in_domain
from agentstop.sockets import SESSION_OVER, Socket
from agentstop.tokens import Scope
from agentstop.waiting import auntil

logger = logging.getLogger(__name__)

PROTOCOL = "agentstop.events"  # for clients that can send no header: they offer it, and beside it their token
BEARER = "bearer."


class TokenOver(Exception):
    """The token that it was opened with lets nobody in any more."""


class EventsConsumer(Socket):
    """The report of one task whenever it reads otherwise than before, to an application or a person."""

    token = ""

    async def who(self) -> Any:
        """A wrong token is not made good by a session, as over HTTP."""
        offered = list(self.scope.get("subprotocols") or [])
        self.protocol = PROTOCOL if PROTOCOL in offered else None
        self.token = self._shown(offered)
        if not self.token:
            return await super().who()
        found = await in_domain(tokens.find, self.token)
        if found is None:
            guesses.wrong(str((self.scope.get("client") or [""])[0]))
        return found.user if found is not None and Scope.READ in found.scopes else None

    def _shown(self, offered: list[str]) -> str:
        header = dict(self.scope["headers"]).get(b"authorization", b"").decode("latin-1")
        kind, _, token = header.partition(" ")
        if header:
            return token.strip() if kind.lower() == "bearer" else " "
        return next((each.removeprefix(BEARER) for each in offered if each.startswith(BEARER)), "")

    async def begin(self, user: object) -> None:
        self.work.append(asyncio.create_task(self._tell(user)))

    async def _tell(self, user: object) -> None:
        try:
            await self._tell_changes(user)
        except TaskNotFound:
            await self.close(NOT_FOUND)
        except TokenOver:
            await self.close(SESSION_OVER)
        except Exception:
            logger.exception("a task could not be told", extra={"action": "show_failed", "task": self.task})
            await self.close(TRY_AGAIN)

    async def _tell_changes(self, user: object) -> None:
        cursor = self.query.get("cursor", [""])[0]
        while True:
            try:
                found = await auntil(partial(self._look, user, cursor), self.task, timeout=sessions.CHECK)
            except TimeoutError:
                continue
            cursor = found.cursor
            event = shapes.EventsOut(cursor=cursor, report=found)
            await self.send(text_data=json.dumps(event.model_dump(), cls=NinjaJSONEncoder))  # as over HTTP
            await asyncio.sleep(GAP)

    @property
    def task(self) -> int:
        return int(self.scope["url_route"]["kwargs"]["task"])

    def _look(self, user: object, cursor: str) -> shapes.ReportOut | None:
        """Each time it is asked anew whether this user may see it, and whether the token still lets them in."""
        if self.token and tokens.find(self.token) is None:
            raise TokenOver
        reader = get_user_model()._default_manager.in_bulk([user]).get(user)
        if reader is None:
            raise TaskNotFound(f"There is no task {self.task} for you.")
        with (
            translation.override(self.language or settings.LANGUAGE_CODE),
            timezone.override(ZoneInfo(self.zone) if self.zone else None),
        ):
            return telling.whole_since(cursor, self.task, reader)
