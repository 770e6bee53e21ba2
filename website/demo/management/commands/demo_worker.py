"""`manage.py demo_worker`: agentstop's follow-up work, and the demo's agents beside it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from django.core.management.base import CommandParser

from agentstop.management.commands import agentstop_worker
from website.demo.agents import Agents


class Command(agentstop_worker.Command):
    help = "Runs the demo's agents and does agentstop's follow-up work. Any number of workers may run."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--agents", type=int, default=16, help="how many agents work at once (default: 16)")

    def handle(self, *, once: bool, agents: int = 16, **options: Any) -> None:
        self._agents = agents
        super().handle(once=once, **options)

    def beside(self) -> AbstractContextManager[object]:
        return Agents(self._agents)
