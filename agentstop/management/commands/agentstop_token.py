"""`manage.py agentstop_token create|list|revoke`: service tokens of applications, as the admin has them."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from agentstop import database, tokens
from agentstop.exceptions import AgentStopError
from agentstop.management import people
from agentstop.models import ServiceToken
from agentstop.tokens import Scope

Verb = Callable[..., tuple[dict[str, Any], str]]  # what is printed as JSON, and else


class Command(BaseCommand):
    help = "Makes, lists and revokes service tokens for the HTTP API. A token is printed once, and not stored."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        create = verbs.add_parser("create", help="make a token, and print it")
        create.add_argument("application", help="what it is for, in people's words")
        create.add_argument("--user", required=True, help="with whose rights it acts")
        create.add_argument("--by", required=True, metavar="USER", help="who makes it; they need the permission")
        create.add_argument("--scope", required=True, action="append", choices=list(Scope), help="may be repeated")
        create.add_argument("--connector", action="append", default=[], help="may be repeated; * is any")
        create.add_argument("--until", default="", help="ISO 8601 with its zone; without it until it is revoked")
        revoke = verbs.add_parser("revoke", help="let nobody in with it any more")
        revoke.add_argument("name", help="the public part of the token, as the list has it")
        revoke.add_argument("--by", required=True, metavar="USER", help="who revokes it; they need the permission")
        for each in (create, revoke, verbs.add_parser("list", help="all tokens, the newest first")):
            each.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *, verb: str, json: bool, **options: Any) -> None:
        verbs: dict[str, Verb] = {"create": self._create, "list": self._list, "revoke": self._revoke}
        try:
            told, line = verbs[verb](**options)
        except (AgentStopError, ValueError) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(_json(told) if json else line)

    def _create(
        self,
        *,
        application: str,
        user: str,
        by: str,
        scope: list[str],
        connector: list[str],
        until: str,
        **options: Any,
    ) -> tuple[dict[str, Any], str]:
        ends = _moment(until) if until else None
        acts_as, maker = people.named(user), people.named(by)
        row, token = tokens.make(application, acts_as, scope, by=maker, connectors=connector, until=ends)
        return {**_told(row), "token": token}, token

    def _list(self, **options: Any) -> tuple[dict[str, Any], str]:
        rows = ServiceToken.objects.using(database.alias()).select_related("user", "made_by").order_by("-pk")
        told = [_told(row) for row in rows]
        return {"tokens": told}, "\n".join(map(_line, told)) or "There are no tokens."

    def _revoke(self, *, name: str, by: str, **options: Any) -> tuple[dict[str, Any], str]:
        row = ServiceToken.objects.using(database.alias()).filter(name=name).first()
        if row is None:
            raise CommandError(f"There is no token {name!r}. agentstop_token list names them.")
        revoked = tokens.revoke(row, by=people.named(by))
        line = f"{row} lets nobody in any more." if revoked else f"{row} was revoked before."
        return {"name": name, "revoked": revoked}, line


def _moment(text: str) -> datetime:
    found = parse_datetime(text)
    if found is None or timezone.is_naive(found):
        raise CommandError(f"--until is no time with its zone: {text!r}. Write it as in 2027-01-31T00:00:00+00:00.")
    return found


def _told(row: ServiceToken) -> dict[str, Any]:
    return {
        "name": row.name,
        "application": row.application,
        "user": row.user.get_username(),
        "scopes": row.scopes,
        "connectors": row.connectors,
        "made_by": row.made_by.get_username() if row.made_by is not None else "",
        **{name: _iso(getattr(row, name)) for name in ("made_at", "until", "used_at", "revoked_at")},
    }


def _iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment is not None else None


def _line(told: dict[str, Any]) -> str:
    state = "revoked" if told["revoked_at"] else f"until {told['until']}" if told["until"] else "valid"
    return f"{told['name']}  {told['application']}  as {told['user']}  {','.join(told['scopes'])}  {state}"


def _json(told: dict[str, Any]) -> str:
    return json.dumps(told, indent=2)
