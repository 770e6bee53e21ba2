"""`manage.py agentstop_verify`: folds every state again from its facts, and reports what differs."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from agentstop import verify


class Command(BaseCommand):
    help = "Folds every stored state again from its facts and reports differences; exit code 1 if there are any."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--task", type=int, help="only this task")
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *, task: int | None, json: bool, **options: Any) -> None:
        found = list(verify.differences(task))
        operations, tasks = verify.counted(task)
        if json:
            self.stdout.write(_json(found, operations, tasks))
        else:
            for difference in found:
                self.stdout.write(str(difference))
            self.stdout.write(f"{operations} operations and {tasks} tasks verified, {len(found)} differences.")
        if found:
            sys.exit(1)


def _json(found: list[verify.Difference], operations: int, tasks: int) -> str:
    differences = [asdict(difference) for difference in found]
    return json.dumps({"operations": operations, "tasks": tasks, "differences": differences}, indent=2)
