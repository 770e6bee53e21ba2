"""Webhooks of providers over real HTTP: signed ones are receipts like any other, all others change nothing."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Barrier
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError
from pytest_django.fixtures import Settings
from pytest_django.live_server_helper import LiveServer

from agentstop import settle, webhooks
from agentstop.models import Decision, Operation, Receipt, Task
from agentstop.providers.base import Answer, Provider, Pushed, Webhook
from agentstop.providers.signatures import Form, Signed
from agentstop.states import Claim
from agentstop.stop import stop
from agentstop.verify import differences
from tests.api.conftest import PROBLEM, Caller, RunAt, Token, begun
from tests.conftest import HANG_GUARD, InThread

pytestmark = pytest.mark.django_db(transaction=True)

SECRET, NEXT = "whsec_" + base64.b64encode(b"the-secret-of-the-printer").decode(), "whsec_bmV4dA=="
TIMED = "sk_timed_secret"
SAYS = {"done": Claim.SUCCEEDED, "failed": Claim.FAILED, "working": Claim.RUNNING, "never": Claim.NOT_FOUND}


class Printer(Provider):
    """Says by itself what becomes of its jobs."""

    def __init__(self, *, signed: Signed) -> None:
        self.signed = signed

    def webhook(self, webhook: Webhook) -> Sequence[Pushed]:
        self.signed.check(webhook)
        events = json.loads(webhook.body)
        return [self._of(each) for each in (events if isinstance(events, list) else [events])]

    def _of(self, event: Mapping[str, Any]) -> Pushed:
        answer = Answer(SAYS[event["state"]], ref=event.get("job", ""), body=json.dumps(event), result=event.get("out"))
        return Pushed(answer, key=event.get("key", ""), event=event.get("id", ""))


PRINTER = {"PROVIDER": f"{__name__}.Printer", "OPTIONS": {"signed": Signed([SECRET, NEXT])}}


@pytest.fixture
def post(live_server: LiveServer, settings: Settings) -> Iterator[Callable[..., httpx.Response]]:
    """Delivers bytes to the connector `printer`, or another one, on a real socket."""
    settings.AGENTSTOP_CONNECTORS = {
        "tools": {},
        "printer": PRINTER,
        "timed": PRINTER | {"OPTIONS": {"signed": Signed([TIMED], Form.TIMED)}},
    }
    with httpx.Client(base_url=f"{live_server.url}/api/webhooks", trust_env=False, timeout=HANG_GUARD) as client:

        def send(body: bytes, headers: Mapping[str, str], connector: str = "printer") -> httpx.Response:
            return client.post(f"/{connector}", content=body, headers={"Content-Type": "text/plain", **headers})

        yield send


Post = Callable[..., httpx.Response]


def signed(body: bytes, secret: str = SECRET, *, at: float | None = None, name: str = "msg_1") -> dict[str, str]:
    stamp = str(int(time.time() if at is None else at))
    key = base64.b64decode(secret.removeprefix("whsec_"))
    made = hmac.new(key, f"{name}.{stamp}.".encode() + body, hashlib.sha256).digest()
    signature = f"v1a,none v1,{base64.b64encode(made).decode()}"
    return {"webhook-id": name, "webhook-timestamp": stamp, "webhook-signature": signature}


def timed(body: bytes, secret: str = TIMED) -> dict[str, str]:
    stamp = int(time.time())
    made = hmac.new(secret.encode(), f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()
    return {"Stripe-Signature": f"t={stamp},v1={'0' * 64},v1={made},v0=old"}


def event(state: str = "done", **more: Any) -> bytes:
    return json.dumps({"state": state, "job": "job-7", **more}).encode()


@pytest.fixture
def job(post: Post, ann: User, token: Token) -> tuple[RunAt, Operation]:
    """An operation that the printer has taken, as job-7."""
    run = begun(Caller(token(ann)))
    passed = run.gate(connector="printer")
    run.heard(passed, "accepted", ref="job-7")
    return run, Operation.objects.get(pk=passed.body["operation"])


def facts() -> tuple[Any, ...]:
    counts = [model.objects.count() for model in (Task, Operation, Receipt, Decision)]
    return *counts, list(Operation.objects.values_list("state", "folded_at"))


def test_after_a_stop_a_webhook_settles_what_was_open(job: tuple[RunAt, Operation], post: Post, ann: User) -> None:
    """R15, R20: by the same folds as any receipt, kept out of the run that is over."""
    run, operation = job
    stop(run.task, by=ann)
    told = post(event(id="e-1", out={"pages": 3}), signed(event(id="e-1", out={"pages": 3})))
    assert (told.status_code, told.json()) == (200, {"kept": [operation.pk], "repeated": []})
    operation.refresh_from_db()
    assert operation.state == "succeeded" and Task.objects.get().state == "stopped"
    receipt = Receipt.objects.get(claim="succeeded")
    assert (receipt.source, receipt.ref, receipt.attempt) == ("provider", "job-7", None)
    [shown] = Caller(user=ann).get(f"/tasks/{run.task}").body["operations"]
    assert shown["name"] == "completed before cancellation"
    assert list(differences()) == []


def test_a_live_run_gets_the_result_that_was_pushed(job: tuple[RunAt, Operation], post: Post) -> None:
    run, operation = job
    body = event(key=str(operation.idempotency_key), job="", out={"pages": 3})
    assert post(body, signed(body, NEXT)).json()["kept"] == [operation.pk]
    told = run.gate(connector="printer").body
    assert (told["passed"], told["got"], told["result"]) == (False, "accepted", {"pages": 3})


def test_the_same_message_is_no_second_fact(
    job: tuple[RunAt, Operation], post: Post, in_thread: InThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delivered again, signed anew too, and by two at once; without the look for it the database refuses it."""
    _, operation = job
    body, barrier = event("working", id="e-1"), Barrier(2)

    def deliver() -> webhooks.Received:
        barrier.wait(HANG_GUARD)
        return webhooks.receive("printer", Webhook(signed(body), body))

    both = [in_thread(deliver).result for _ in range(2)]
    told = [each(HANG_GUARD) for each in both]
    assert sorted((one.kept, one.repeated) for one in told) == [((), (operation.pk,)), ((operation.pk,), ())]
    before = facts()
    assert post(body, signed(body, NEXT, name="msg_2")).json() == {"kept": [], "repeated": [operation.pk]}
    assert facts() == before
    monkeypatch.setattr(settle, "_not_kept", lambda operation, heard: heard)
    with pytest.raises(IntegrityError):
        webhooks.receive("printer", Webhook(signed(body), body))
    assert facts() == before
    monkeypatch.undo()
    unnamed = event("working")
    assert [len(post(unnamed, signed(unnamed)).json()["kept"]) for _ in range(2)] == [1, 0]


def cases() -> Iterator[tuple[str, bytes, Mapping[str, str], str, int, str]]:
    body, now = event(), time.time()
    good = signed(body)
    yield "unsigned", body, {}, "printer", 403, "not_signed"
    yield "forged", body, signed(body, "whsec_Zm9yZ2Vk"), "printer", 403, "not_signed"
    yield "another body", event("failed"), good, "printer", 403, "not_signed"
    yield "another id", body, good | {"webhook-id": "msg_2"}, "printer", 403, "not_signed"
    yield "a later time", body, good | {"webhook-timestamp": str(int(now) + 9)}, "printer", 403, "not_signed"
    yield "no time", body, good | {"webhook-timestamp": "x"}, "printer", 403, "not_signed"
    yield "too old", body, signed(body, at=now - 400), "printer", 403, "not_signed"
    yield "of tomorrow", body, signed(body, at=now + 86_400), "printer", 403, "not_signed"
    yield "another version", body, good | {"webhook-signature": "v2," + "A" * 43}, "printer", 403, "not_signed"
    yield "another's form", body, signed(body), "timed", 403, "not_signed"
    yield "forged, timed", body, timed(body, "no"), "timed", 403, "not_signed"
    yield "no such connector", body, good, "plotter", 404, "not_found"
    yield "takes none", body, good, "tools", 404, "not_found"
    for name, wrong in {
        "no JSON": b"{",
        "no object": b"7",
        "not UTF-8": b'{"state": "\xff"}',
        "a state that nobody knows": event("melted"),
        "a claim that no push can make": event("never"),
        "about nothing": event(job=""),
    }.items():
        yield name, wrong, signed(wrong), "printer", 422, "invalid"
    for name, other in {
        "another job": event(job="job-8"),
        "no key": event(key="\x00nope"),
        "NUL": event(job="\x00"),
    }.items():
        yield name, other, signed(other), "printer", 404, "not_ours"
    huge = event(out="x" * 50_000_000)
    yield "50 MB", huge, signed(huge), "printer", 413, "too_large"


def test_what_is_not_the_providers_changes_nothing(job: tuple[RunAt, Operation], post: Post) -> None:
    """Forged, altered, old, unsigned, unreadable, about nothing that is known, huge: a clear answer each."""
    before = facts()
    for name, body, headers, connector, status, reason in cases():
        told = post(body, headers, connector)
        assert (told.status_code, told.json()["reason"]) == (status, reason), name
        assert told.headers["Content-Type"] == PROBLEM and told.json()["todo"]
        assert facts() == before, name


def test_it_is_delivered_again_until_its_operation_is_known(
    post: Post, ann: User, token: Token, job: tuple[RunAt, Operation]
) -> None:
    """A push may be here before the answer that names the reference; one that two operations have proves nothing."""
    run, first = job
    passed = run.gate("mail:2", connector="printer")
    both = json.dumps([json.loads(event(id="a")), json.loads(event(id="b", job="job-9"))]).encode()
    told = post(both, signed(both))
    assert (told.status_code, told.json()["reason"]) == (404, "not_ours")
    first.refresh_from_db()
    assert first.state == "succeeded"
    run.heard(passed, "accepted", ref="job-9")
    second = passed.body["operation"]
    assert post(both, signed(both)).json() == {"kept": [second], "repeated": [first.pk]}
    third = run.gate("mail:3", connector="printer")
    run.heard(third, "accepted", ref="job-9")
    assert post(event("failed", job="job-9"), signed(event("failed", job="job-9"))).json()["reason"] == "not_ours"


def test_another_connectors_operations_are_not_its_own(job: tuple[RunAt, Operation], post: Post) -> None:
    _, operation = job
    for body in (event(), event(key=str(operation.idempotency_key))):
        assert post(body, timed(body), "timed").json()["reason"] == "not_ours"
    operation.refresh_from_db()
    assert operation.state == "accepted"


def test_no_secret_is_stored_or_logged(
    job: tuple[RunAt, Operation], post: Post, caplog: pytest.LogCaptureFixture
) -> None:
    body = event(out={"password": "hunter-2"})
    headers = signed(body)
    caplog.set_level(logging.DEBUG)
    assert post(body, headers).status_code == 200
    assert post(body, signed(body, "whsec_Zm9yZ2Vk")).status_code == 403
    stored = " ".join(str(row) for row in Receipt.objects.values())
    for secret in (SECRET, "the-secret-of-the-printer", headers["webhook-signature"], "hunter-2"):
        assert secret not in stored and secret not in caplog.text
    assert SECRET not in repr(Signed([SECRET]))


def test_a_hook_that_breaks_is_logged_and_says_so(
    job: tuple[RunAt, Operation], post: Post, caplog: pytest.LogCaptureFixture
) -> None:
    body = b'{"job": "job-7"}'
    told = post(body, signed(body))
    assert (told.status_code, told.json()["reason"]) == (422, "invalid")
    assert "could not be read" in caplog.text
