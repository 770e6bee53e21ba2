"""What the commands print as JSON has the shapes of docs/operating.md: monitors and scripts rest on them (R36)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import OperationalError

from agentstop import bulk, tokens
from agentstop.models import Operation, ServiceToken, Task
from agentstop.runs import begin
from agentstop.stop import stop
from tests.demo_process import ROOT

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tools")]

Printed = Callable[..., Any]


def documented(command: str) -> Any:
    """The first JSON after the sentence that begins with the command."""
    section = (ROOT / "docs" / "operating.md").read_text().split("### What they print as JSON")[1]
    found = re.search(rf"^`{command}[^`]*`.*?```json\n(.*?)```", section, re.MULTILINE | re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def shape(value: Any) -> Any:
    """Names and types; of a list, the shapes that occur in it."""
    if isinstance(value, dict):
        return {name: shape(each) for name, each in value.items()}
    if isinstance(value, list):
        return [each for number, each in enumerate(map(shape, value)) if each not in list(map(shape, value))[:number]]
    return type(value).__name__


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Printed:
    """What a command printed, whatever its exit code."""

    def run(*words: object, **options: Any) -> Any:
        capsys.readouterr()
        try:
            call_command(*map(str, words), **options)
        except SystemExit as ended:
            assert ended.code == 1
        return json.loads(capsys.readouterr().out)

    return run


@pytest.fixture
def lost(ann: User) -> Iterator[Operation]:
    def reset(_: object) -> None:
        raise OSError("reset by peer")

    run = begin("Quarterly report", owner=ann)
    run.call("send", connector="tools", key="notify:q3", send=reset)
    yield Operation.objects.get()


def test_status(printed: Printed, lost: Operation) -> None:
    assert shape(printed("agentstop_status", "--json")) == shape(documented("agentstop_status"))


def test_stop(printed: Printed, lost: Operation, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = begin("broken")

    def failing(task: int, **how: Any) -> Any:
        if task == broken.task_id:
            raise OperationalError("disk full")
        return stop(task, **how)

    monkeypatch.setattr(bulk, "stop", failing)
    told, wanted = printed("agentstop_stop", "--all", "--json"), documented("agentstop_stop")
    wanted["tasks"][0]["task"], wanted["tasks"][0]["open"] = lost.task_id, [lost.pk]
    wanted["tasks"][1]["task"] = broken.task_id
    wanted["before"]["running"] = 2
    assert told == wanted
    assert set(printed("agentstop_stop", "--all", "--dry-run", "--json")) == {"before"}


def test_settle(printed: Printed, lost: Operation) -> None:
    words = ("--outcome", "failed", "--reason", "not there", "--by", "ann", "--json")
    assert printed("agentstop_settle", lost.pk, *words) == {**documented("agentstop_settle"), "operation": lost.pk}


def test_token(printed: Printed, ann: User) -> None:
    """Made, listed without its secret, revoked; by whom it is not allowed nothing is made."""
    root = User.objects.create_superuser("root")
    words = ("agentstop_token", "create", "mail agent", "--user", "ann", "--scope", "run", "--connector", "tools")
    made, wanted = printed(*words, "--by", "root", "--json"), documented("agentstop_token")
    assert shape(made) == shape(wanted) and tokens.find(made["token"]) is not None
    [listed] = printed("agentstop_token", "list", "--json")["tokens"]
    assert listed["used_at"] and {**listed, "used_at": None, "token": made["token"]} == made
    for wrong in ("ann", "nobody"):
        with pytest.raises(CommandError):
            call_command(*words, "--by", wrong)
    with pytest.raises(CommandError, match="zone"):
        call_command(*words, "--by", "root", "--until", "2027-01-31")
    revoke = ("agentstop_token", "revoke", made["name"], "--by", root.username, "--json")
    assert printed(*revoke) == {"name": made["name"], "revoked": True}
    assert not printed(*revoke)["revoked"] and tokens.find(made["token"]) is None
    assert ServiceToken.objects.count() == 1


def test_purge(printed: Printed, lost: Operation) -> None:
    begin("done").finish()
    assert printed("agentstop_purge", "--all", "--dry-run", "--json") == {"would_erase": 1, "would_keep": 0}
    assert printed("agentstop_purge", "--all", "--json") == {**documented("agentstop_purge"), "erased": 1, "kept": 0}


def test_verify(printed: Printed, lost: Operation) -> None:
    Operation.objects.update(state="succeeded")
    told, wanted = printed("agentstop_verify", "--json"), documented("agentstop_verify")
    assert shape(told) == shape(wanted)
    Operation.objects.update(state="unknown")
    assert printed("agentstop_verify", "--json")["differences"] == []


def test_export(printed: Printed, lost: Operation) -> None:
    told, wanted = printed("agentstop_export", lost.task_id), documented("agentstop_export")
    assert shape(told) | {"facts": 0} == shape(wanted) | {"facts": 0}
    [receipt] = [fact for fact in told["facts"] if fact["fact"] == "receipt"]
    assert shape(receipt) == shape(wanted["facts"][0])
    assert {tuple(fact) for fact in told["facts"]} == {tuple(wanted["facts"][0])}
    assert Task.objects.get().title == told["title"]
