"""`manage.py demo_worker`: agentstop's follow-up work, and the demo's agents beside it."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser

from agentstop.management.commands import agentstop_worker
from website.demo.agents import Agents

WORKERS = 2  # of Django's tasks


class Command(agentstop_worker.Command):
    help = "Runs the demo's agents and does agentstop's follow-up work. Any number of workers may run."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--agents", type=int, default=16, help="how many agents work at once (default: 16)")

    def handle(self, *, once: bool, agents: int = 16, **options: Any) -> None:
        self._agents = agents
        super().handle(once=once, **options)

    def beside(self) -> AbstractContextManager[object]:
        beside = ExitStack()
        beside.enter_context(Agents(self._agents))
        if settings.HAS_DJANGO_TASKS:
            from website.demo.django_jobs import Workers  # where they are installed

            beside.enter_context(Workers(WORKERS))
        return beside
