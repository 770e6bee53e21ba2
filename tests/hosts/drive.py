"""Uses a host as its people do: sees pages, presses their buttons, and reads what they say. Prints what it saw."""

from __future__ import annotations

import re
from typing import Any

import django

django.setup()

from django.conf import settings  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connections, router  # noqa: E402
from django.test import Client  # noqa: E402

from agentstop import sending, wake  # noqa: E402
from agentstop.models import Operation, Run, Task  # noqa: E402

FIRST = 1_234_567  # ids that a language writes with separators


def main() -> None:
    for alias in settings.DATABASES:
        call_command("migrate", database=alias, verbosity=0)
    call_command("check", databases=list(settings.DATABASES), fail_level="WARNING")
    begin_at(FIRST)
    person = Client(enforce_csrf_checks=True)
    person.get("/enter/")
    conversation, one, two, three = person.get("/start/").content.decode().split()
    assert person.get(f"/act/{one}/?key=k").content == b"accepted"
    here = f"/page/none/{conversation}/"
    page = person.get(here).content.decode()
    buttons(page)
    press(person, page, f"/agentstop/tasks/{one}/stop/", run="1")
    told = press(person, page, f"/agentstop/tasks/{two}/stop/", by="button", run="1")
    assert f'id="agentstop-task-{two}-alone"' in told and "<html" not in told, told
    rows = person.get(f"/agentstop/tasks/rows/?tasks={one},{three}").content.decode()
    assert re.findall(r'<li class="agentstop-task" id="agentstop-task-(\d+)-row"', rows) == [one, three], rows
    for path in (
        f"tasks/{one}/",
        "tasks/",
        f"tasks/{one}/operations/",
        f"tasks/{one}/timeline/",
        f"tasks/{one}/family/",
    ):
        buttons(person.get(f"/agentstop/{path}").content.decode())
    operation = Operation.objects.get()
    buttons(person.get(f"/agentstop/operations/{operation.pk}/").content.decode())
    states = [Task.objects.get(pk=each).state for each in (one, two, three)]
    print(*states, operation.state, router.db_for_write(Task), text(person.get(here).content.decode()))
    sending.close()
    wake.close()


def begin_at(first: int) -> None:
    """Let the next tasks and operations have large ids."""
    connection = connections[router.db_for_write(Task)]
    with connection.cursor() as cursor:
        for model in (Task, Run, Operation):
            if connection.vendor == "postgresql":
                cursor.execute("SELECT setval(pg_get_serial_sequence(%s, 'id'), %s)", [model._meta.db_table, first])
                continue
            cursor.execute("DELETE FROM sqlite_sequence WHERE name = %s", [model._meta.db_table])
            cursor.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (%s, %s)", [model._meta.db_table, first])


def press(person: Client, page: str, address: str, *, by: str = "", **values: str) -> str:
    """Send the form of the page that leads there."""
    form = re.search(rf'<form [^>]*action="{address}".*?</form>', page, re.DOTALL)
    assert form is not None, f"no form leads to {address}\n{page}"
    hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form[0]))
    headers = {"Agentstop-Request": by} if by else {}
    answer: Any = person.post(address, {**hidden, **values}, headers=headers)
    assert answer.status_code == (200 if by else 302), answer
    return str(answer.content.decode())


def buttons(page: str) -> None:
    """No id has a separator in it."""
    named = re.findall(r'name="(?:run|operation|input)" value="([^"]*)"', page)
    named += re.findall(r'\bid="agentstop-(?:task|operation)-(\d[^-"]*)', page)
    named += re.findall(r'data-agentstop-fact="\w+:([^"]*)"', page)
    assert all(each.isascii() and each.isdigit() for each in named), named
    assert not re.findall(r'href="[^"]*\d[.,]\d', page), page


def text(page: str) -> str:
    return " ".join(re.sub("<[^>]+>", " ", page.partition("<body")[2]).split())


if __name__ == "__main__":
    main()
