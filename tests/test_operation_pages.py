"""R13, R15, R17, R18: one operation's page: what was sent, who said what and when, and whose result it is."""

from __future__ import annotations

import html
import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agentstop import database
from agentstop.models import Attempt, Call, Decision, Operation, Receipt
from agentstop.models.facts import CallOutcome
from agentstop.reports import evidence_report
from agentstop.runs import begin
from agentstop.settle import Heard, record
from agentstop.states import Claim, Source, Verb
from agentstop.stop import stop
from agentstop.testing.sandbox.client import SandboxClient
from tests.test_views import NASTY, browser

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tools")]

ENTRY = re.compile(r'<li data-kind="(\w+)">(.*?)\n    </li>', re.DOTALL)
TAG = re.compile(r"<[^>]+>")


def text_of(user: User, address: str) -> str:
    answer = browser(user).get(address)
    assert answer.status_code == 200, answer.status_code
    return str(answer.content.decode())


def entries(text: str) -> list[tuple[str, str]]:
    """The kind and the words of each fact on the page."""
    return [(kind, " ".join(html.unescape(TAG.sub(" ", words)).split())) for kind, words in ENTRY.findall(text)]


def lost(_: Any) -> None:
    raise OSError("reset by peer")


def in_doubt(owner: User) -> Operation:
    """Sent, no answer; stopped; then asked to cancel, looked at twice and settled by hand: all kinds of facts."""
    run = begin("Report", owner=owner)
    run.call("mail.send", connector="tools", key="k", send=lost)
    operation = Operation.objects.get()
    attempt = Attempt.objects.get()
    stop(run.task_id, by=owner)
    now = database.now()
    asked: dict[str, Any] = {"operation": operation, "asked_at": now, "seen_at": now + timedelta(seconds=1)}
    Attempt.objects.create(
        operation=operation, verb=Verb.CANCEL, number=1, passed_at=now, lease_until=now, settling=timedelta(0),
        max_age=timedelta(1), sender="host 1",
    )  # fmt: skip
    cancel = Attempt.objects.get(verb=Verb.CANCEL)
    Receipt.objects.create(claim=Claim.CANCELLED, source=Source.PROVIDER, attempt=cancel, **asked)
    Receipt.objects.create(claim=Claim.RUNNING, source=Source.READ_BACK, attempt=attempt, ref="job 7", **asked)
    Receipt.objects.create(claim=Claim.SUCCEEDED, source=Source.INTERMEDIARY, body=NASTY, size=40, **asked)
    Receipt.objects.create(claim=Claim.FAILED, source=Source.PERSON, by=owner, body="I asked them", **asked)
    Call.objects.create(operation=operation, run=1, outcome=CallOutcome.IGNORED, at=now + timedelta(seconds=1))
    return operation


def test_each_fact_stands_in_order_with_its_time_its_source_in_words_and_what_was_said(ann: User) -> None:
    operation = in_doubt(ann)
    text = text_of(ann, f"/operations/{operation.pk}/")
    found = [words for _, words in entries(text)]
    for words in (
        "Attempt 1 was released to be sent, for run 1.",
        "It was sent, or may have been; no usable answer came back. Source: the process that sent it · about attempt 1",
        "It was decided to cancel it. By ann",
        "Cancel request 1 was sent, or may have been. By host 1",
        "The provider acknowledged the cancel request; that alone confirms nothing. Source: the provider",
        "The provider was asked, and says that it is running. Source: the provider, when it was asked · about attempt",
        "Reference: job 7",
        "An intermediary reported it completed; the provider has not confirmed it. Source: an intermediary, not the",
        "A person settled it as failed. Source: a person ( ann )",
        "The result was kept out of run 1, which asked for it.",
    ):
        assert any(words in each for each in found), (words, found)
    assert [kind for kind, _ in entries(text)][:2] == ["attempt", "receipt"]
    times = re.findall(r'<p class="agentstop-when"><time datetime="([^"]+)" title="[^"]+">', text)
    assert times == sorted(times) and len(times) == len(found)
    assert "<script>alert" not in text and html.escape(NASTY) in text


def test_it_is_fetched_only_when_asked_for_and_the_row_leads_to_it(ann: User) -> None:
    operation = in_doubt(ann)
    page = text_of(ann, f"/tasks/{operation.task_id}/")
    assert f'<a href="/operations/{operation.pk}/" id="agentstop-operation-{operation.pk}-facts">' in page
    assert "acknowledged the cancel request" not in page
    assert f'href="/tasks/{operation.task_id}/#agentstop-operation-{operation.pk}"' in text_of(
        ann, f"/operations/{operation.pk}/"
    )


def test_strangers_learn_nothing(ann: User, ben: User) -> None:
    operation = in_doubt(ann)
    answers = [browser(ben).get(f"/operations/{pk}/") for pk in (operation.pk, operation.pk + 1, 10**18)]
    assert [answer.status_code for answer in answers] == [404] * 3


def test_thousands_of_facts_come_in_pages_in_as_many_queries_as_a_few(ann: User) -> None:
    operation = in_doubt(ann)
    counts = []
    for more in (0, 3000):
        now = database.now()
        Receipt.objects.bulk_create(
            Receipt(operation=operation, claim=Claim.PROGRESS, source=Source.PROVIDER, asked_at=now, seen_at=now)
            for _ in range(more)
        )
        with CaptureQueriesContext(connection) as queries:
            page, shown = evidence_report.page(operation, "1")
        counts.append(len(queries))
        ordered = [query["sql"] for query in queries if "UNION ALL" in query["sql"]]
        assert [("LIMIT" in sql) for sql in ordered] == [False, True]  # counted, and the page alone is handed out
        assert len(shown) == min(page.paginator.count, evidence_report.PAGE)
    assert counts[1] <= counts[0]
    last = text_of(ann, f"/operations/{operation.pk}/?page=999")
    assert "Page 61 of 61" in last and len(entries(last)) == page.paginator.count - 60 * evidence_report.PAGE


def test_of_a_large_answer_the_beginning_is_shown_and_secrets_are_masked(ann: User) -> None:
    run = begin("Report", owner=ann)
    operation = run.call("mail.send", connector="tools", key="k", send=lambda _: {"api_key": "s3cret", "t": "x" * 9000})
    text = text_of(ann, f"/operations/{operation.operation}/")
    assert "s3cret" not in text and "•••" in text
    assert "x" * 3000 in text and "x" * 5000 not in text
    assert "Only the beginning is shown." in text


def test_a_refusal_is_told_once_with_how_often(ann: User) -> None:
    run = begin("Report", owner=ann)
    run.call("mail.send", connector="tools", key="k", send=lost)
    operation = Operation.objects.get()
    Decision.objects.create(
        task_id=run.task_id, operation=operation, run=1, verb="refuse", reason="stopped", count=3, at=database.now()
    )
    text = text_of(ann, f"/operations/{operation.pk}/")
    assert any("the task was stopped. 3 times." in words for kind, words in entries(text) if kind == "refused")


def test_what_the_provider_can_do_stands_in_words(ann: User, sandbox: SandboxClient) -> None:
    run = begin("Report", owner=ann)
    run.call("file.upload", {"text": "report", "label": "l"}, connector="sandbox", key="q3")
    run.call("mail.send", connector="tools", key="k", send=lambda _: "sent")
    able, unable = Operation.objects.order_by("pk")
    text = text_of(ann, f"/operations/{able.pk}/")
    for words in (
        "It can be asked by the key that was sent along.",
        "By what this provider says, it takes back all of it.",
    ):
        assert words in text
    text = text_of(ann, f"/operations/{unable.pk}/")
    for words in (
        "It cannot cancel: once sent, it goes on even if the task is stopped.",
        "This provider cannot be asked what became of it.",
        "It cannot be undone here.",
        "Sending it again might do it twice.",
    ):
        assert words in text


def admission(owner: User, task: int) -> str:
    found = re.search(r'<p class="agentstop-admission">(.*?)</p>', text_of(owner, f"/tasks/{task}/"))
    return found[1] if found else ""


def test_the_panel_says_whose_context_holds_a_result(ann: User) -> None:
    """Taken in; kept out of a run that was over; of nobody, since the run was gone before it could ask again."""
    run = begin("Taken", owner=ann)
    run.call("mail.send", connector="tools", key="k", send=lambda _: "sent")
    stop(run.task_id, by=ann)
    assert admission(ann, run.task_id) == "Run 1 has taken its result in."

    run = begin("Kept out", owner=ann)
    run.call("mail.send", connector="tools", key="k", send=lambda _: stop(run.task_id, by=ann) and "sent")
    assert admission(ann, run.task_id) == "The result was kept out of run 1, which asked for it."

    run = begin("Nobody's", owner=ann)
    run.call("mail.send", connector="tools", key="k", send=lost)
    stop(run.task_id, by=ann)
    assert admission(ann, run.task_id) == ""
    record(Operation.objects.latest("pk").pk, [Heard(Claim.SUCCEEDED, Source.READ_BACK, database.now())])
    assert admission(ann, run.task_id) == "No run has taken its result in."
