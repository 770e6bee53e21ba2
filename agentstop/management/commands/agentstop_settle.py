"""`manage.py agentstop_settle OPERATION`: a person says how an operation ended that no machine can tell about."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from agentstop.exceptions import AgentStopError
from agentstop.management import people
from agentstop.settlement import settle_by_hand
from agentstop.states import FINAL_CLAIMS


class Command(BaseCommand):
    help = "Settles an operation whose outcome is unknown, on a person's word, which is kept with the evidence for it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("operation", type=int, help="the number of the operation")
        parser.add_argument("--outcome", required=True, choices=sorted(FINAL_CLAIMS))
        parser.add_argument("--reason", required=True, help="the evidence: what was seen, and where")
        parser.add_argument("--by", required=True, metavar="USER", help="whose word it is; they need the permission")
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *, operation: int, outcome: str, reason: str, by: str, json: bool, **options: Any) -> None:
        try:
            settled = settle_by_hand(operation, by=people.named(by), outcome=outcome, reason=reason)
        except (AgentStopError, ValueError) as error:
            raise CommandError(str(error)) from error
        if json:
            self.stdout.write(_json({"operation": operation, "state": settled.state}))
        else:
            self.stdout.write(f"Operation {operation} is {settled.state} now. {by}'s word is kept among its receipts.")


def _json(told: dict[str, Any]) -> str:
    return json.dumps(told, indent=2)
