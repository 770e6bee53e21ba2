"""Asks for the run that a token names, says "waits" when it does, and then what it got.

python -m tests.questions.waits TOKEN TEXT KEY
"""

from __future__ import annotations

import sys

import django

django.setup()

from agentstop import questions  # noqa: E402
from agentstop.exceptions import Refused  # noqa: E402
from agentstop.models import Question  # noqa: E402
from agentstop.questions import Answered  # noqa: E402
from agentstop.runs import Run  # noqa: E402
from tests.questions.conftest import ask  # noqa: E402

look, told = questions._look, set[str]()


def say(word: str) -> None:
    if word not in told:
        told.add(word)
        sys.stdout.write(f"{word}\n")
        sys.stdout.flush()


def looked(question: Question) -> Answered | None:
    found = look(question)
    if found is None:
        say("waits")
    return found


questions._look = looked
try:
    token, text, key = sys.argv[1:]
    say(ask(Run.from_token(token), text, key=key).value)
except Refused as refused:
    say(refused.reason)
