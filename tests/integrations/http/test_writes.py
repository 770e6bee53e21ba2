"""What a gated client sends, what is recorded of it, and what it gets (R7-R12, R15)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import httpx2
import pytest
from django.contrib.auth.models import User

from agentstop.exceptions import InFlight, KeyReused, OutcomeUnknown, PassExpired, Stale, Stopped
from agentstop.integrations.http.for_httpx import GatedTransport
from agentstop.integrations.http.for_httpx2 import GatedTransport as GatedTransport2
from agentstop.integrations.http.scope import Ungated, through
from agentstop.integrations.http.transport import AnswerUnusable
from agentstop.models import Attempt, Decision, Receipt
from agentstop.runs import Run, begin
from agentstop.stop import stop
from tests.conftest import HANG_GUARD, InThread
from tests.counted import eventually
from tests.integrations.http.server import Reply, Server
from tests.observed import claims, of_key
from tests.providers.calls import closed_port

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "Bearer s3cret"


@contextmanager
def client(server: Server, connector: str = "keyed", *, kind: Any = httpx, **options: Any) -> Iterator[Any]:
    gated = {httpx: GatedTransport, httpx2: GatedTransport2}[kind](connector, **options)
    with kind.Client(transport=gated, base_url=server.address, headers={"Authorization": SECRET}) as client:
        yield client


@pytest.fixture
def run(ann: User) -> Run:
    return begin("charge", owner=ann)


def test_a_write_is_an_operation_with_its_answer_as_receipt(run: Run, server: Server) -> None:
    server.script = [Reply(201, {"id": "ch_1"}, {"set-cookie": "session=s3cret"})]
    with client(server) as http, through(run, key="charge:7", action="charge.create"):
        answer = http.post("/charges?expand=x", json={"amount": 7})
    assert (answer.status_code, answer.json()) == (201, {"id": "ch_1"})
    seen = of_key(run.task_id, "charge:7")
    assert (seen.state, seen.operation.action, seen.operation.connector) == ("succeeded", "charge.create", "keyed")
    [arrived] = server.writes
    assert arrived.key == str(seen.operation.idempotency_key)
    assert len(run.context()) == 1
    told = repr([seen.operation.summary, *Receipt.objects.values_list("body", flat=True), *run.context()])
    assert "s3cret" not in told and "session" not in told


@pytest.mark.parametrize("kind", [httpx, httpx2])
def test_both_libraries_are_gated_alike(run: Run, server: Server, kind: Any) -> None:
    with client(server, kind=kind) as http, through(run, key="k"):
        assert http.post("/charges", json={}).status_code == 200
        assert isinstance(http.post("/charges", json={}), kind.Response)
    assert len(server.writes) == 1  # the second got the answer of the first
    assert of_key(run.task_id, "k").state == "succeeded"


@pytest.mark.parametrize(("style", "sent"), [("bare", "{}"), ("quoted", '"{}"')])
def test_the_key_is_sent_in_the_form_of_the_provider(run: Run, server: Server, style: str, sent: str) -> None:
    with client(server, idempotency_format=style) as http, through(run, key="k"):
        http.post("/charges")
    assert server.writes[0].key == sent.format(of_key(run.task_id, "k").operation.idempotency_key)


@pytest.mark.parametrize("header", ["order:7", '"order:7"'])
def test_a_header_names_the_effect_too(run: Run, server: Server, header: str) -> None:
    with client(server) as http, through(run):
        http.post("/charges", headers={"Idempotency-Key": header})
    assert of_key(run.task_id, "order:7").operation.action == "POST /charges"


def test_a_provider_that_does_not_honour_the_key_gets_what_the_client_has_set(run: Run, server: Server) -> None:
    with client(server, "plain") as http, through(run):
        http.post("/charges", headers={"Idempotency-Key": "mine"})
    assert server.writes[0].key == "mine"


def test_a_write_without_a_block_or_without_a_name_is_refused_before_anything(run: Run, server: Server) -> None:
    with client(server) as http:
        with pytest.raises(Ungated, match="stands in no block"):
            http.post("/charges")
        with through(run), pytest.raises(Ungated, match=r"has no name\. Pass through\(run, key=…\)"):
            http.post("/charges")
    with pytest.raises(TypeError, match="takes a Run"), through("run"):  # type: ignore[arg-type]
        pass
    assert server.arrived == []


def test_a_key_for_another_effect_is_refused(run: Run, server: Server) -> None:
    with client(server) as http, through(run, key="k"):
        http.post("/charges", json={"amount": 7})
        with pytest.raises(KeyReused):
            http.post("/charges", json={"amount": 8})
    with client(server) as http, through(run, key="l", identify=["url"]):
        http.post("/charges", json={"text": "so"})
        http.post("/charges", json={"text": "or so"})
    assert len(server.writes) == 2


def test_after_a_stop_a_write_is_refused_on_record_and_reads_go_on(run: Run, server: Server) -> None:
    stop(run.task_id)
    with client(server) as http, through(run, key="k"):
        with pytest.raises(Stopped):
            http.post("/charges")
        for method in ("GET", "HEAD", "OPTIONS"):
            assert http.request(method, "/charges/1").status_code == 200
    assert server.writes == []
    assert Decision.objects.get(operation=of_key(run.task_id, "k").operation, verb="refuse").reason == "stopped"


@pytest.mark.parametrize(
    ("reply", "state"),
    [
        (Reply(400), "failed"),
        (Reply(404), "failed"),
        (Reply(422), "failed"),
        (Reply(408), "unknown"),
        (Reply(409), "unknown"),
        (Reply(425), "unknown"),
        (Reply(429), "unknown"),
        (Reply(500), "unknown"),
        (Reply(503), "unknown"),
        (Reply(302), "unknown"),
        (Reply(204, content=b""), "succeeded"),
        (Reply(content=b"<<<"), "succeeded"),
    ],
)
def test_what_a_reply_means(run: Run, server: Server, reply: Reply, state: str) -> None:
    server.script = [reply]
    with client(server) as http, through(run, key="k"):
        assert http.post("/charges").status_code == reply.status
    assert of_key(run.task_id, "k").state == state


def test_a_job_is_accepted_with_its_address_and_the_client_is_not_kept(run: Run, server: Server) -> None:
    server.script = [Reply(202, {"status": "queued"}, {"location": "/jobs/7"})]
    with client(server) as http, through(run, key="k"):
        assert http.post("/jobs").headers["location"] == "/jobs/7"
        seen = of_key(run.task_id, "k")
        assert (seen.state, seen.operation.ref) == ("accepted", "/jobs/7")
        with pytest.raises(InFlight):
            http.post("/jobs")
    assert len(server.writes) == 1


def test_without_a_connection_nothing_was_sent_and_it_may_be_tried_again(run: Run, server: Server) -> None:
    address = f"{closed_port()}/charges"
    with client(server, "plain") as http, through(run, key="k"):
        with pytest.raises(httpx.ConnectError):
            http.post(address)
        assert of_key(run.task_id, "k").state == "not_sent"
        with pytest.raises(httpx.ConnectError):
            http.post(address)
    seen = of_key(run.task_id, "k")
    assert (seen.state, Attempt.objects.filter(operation=seen.operation).count()) == ("not_sent", 2)


def test_a_name_that_does_not_resolve_was_not_sent(run: Run, server: Server) -> None:
    with client(server, "plain") as http, through(run, key="k"), pytest.raises(httpx.ConnectError):
        http.post("http://no-such-host.invalid/charges")
    assert of_key(run.task_id, "k").state == "not_sent"


def test_tls_that_fails_was_not_sent(run: Run, server: Server) -> None:
    with client(server, "plain") as http, through(run, key="k"), pytest.raises(httpx.ConnectError):
        http.post(server.address.replace("http:", "https:") + "/charges")
    assert of_key(run.task_id, "k").state == "not_sent"
    assert server.writes == []


def test_a_reset_after_the_write_is_unknown_and_not_sent_again_where_that_may_be_twice(
    run: Run, server: Server
) -> None:
    server.script = [Reply(reset=True), Reply()]
    with client(server, "plain") as http, through(run, key="k"):
        with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
            http.post("/charges")
        assert of_key(run.task_id, "k").state == "unknown"
        with pytest.raises((InFlight, OutcomeUnknown)):
            http.post("/charges")
    assert len(server.writes) == 1


def test_where_the_key_is_honoured_a_lost_answer_is_asked_for_again_by_the_same_attempt(
    run: Run, server: Server
) -> None:
    server.script = [Reply(reset=True), Reply(500), Reply(201, {"id": "ch_1"})]
    with client(server) as http, through(run, key="k"):
        with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
            http.post("/charges")
        assert http.post("/charges").status_code == 500
        assert http.post("/charges").json() == {"id": "ch_1"}
    seen = of_key(run.task_id, "k")
    assert (seen.state, Attempt.objects.filter(operation=seen.operation).count()) == ("succeeded", 1)
    assert {each.key for each in server.writes} == {str(seen.operation.idempotency_key)}
    assert len(server.writes) == 3


def test_a_refusal_after_a_lost_answer_proves_nothing_about_the_first(run: Run, server: Server) -> None:
    server.script = [Reply(500), Reply(401)]
    with client(server) as http, through(run, key="k"):
        http.post("/charges")
        assert http.post("/charges").status_code == 401
    seen = of_key(run.task_id, "k")
    assert (seen.state, claims(seen.operation.pk)) == ("unknown", [("lost", "provider"), ("lost", "sender")])


def test_a_stop_between_two_tries_lets_the_second_not_leave(run: Run, server: Server) -> None:
    server.script = [Reply(500), Reply()]
    with client(server) as http, through(run, key="k"):
        http.post("/charges")
        stop(run.task_id)
        with pytest.raises(Stopped):
            http.post("/charges")
    assert len(server.writes) == 1
    assert Decision.objects.filter(verb="refuse", reason="stopped").count() == 1


def test_a_stop_during_a_send_frees_the_client_and_keeps_the_receipt(
    run: Run, server: Server, in_thread: InThread
) -> None:
    go = threading.Event()
    server.script = [Reply(201, {"id": "ch_1"}, wait=go)]

    def charge() -> None:
        with client(server) as http, through(run, key="k"), pytest.raises(Stale):
            http.post("/charges")

    charging = in_thread(charge)
    server.wait()
    stop(run.task_id)
    charging.result(HANG_GUARD)  # freed before the provider has answered
    go.set()
    eventually(lambda: of_key(run.task_id, "k").label, "completed_before")
    assert (run.context(), len(server.writes)) == ([], 1)


def test_an_answer_of_200_megabytes_is_capped(run: Run, server: Server) -> None:
    server.script = [Reply(content=b"x" * 20_000_000, headers={"content-length": "200000000"})]
    with client(server) as http, through(run, key="k"):
        with pytest.raises(AnswerUnusable, match="not read whole"):
            http.post("/charges")
        with pytest.raises(AnswerUnusable):
            http.post("/charges")
    seen = of_key(run.task_id, "k")
    assert (seen.state, len(server.writes)) == ("succeeded", 1)
    assert max(len(body) for body in Receipt.objects.values_list("body", flat=True)) < 1_100_000


def test_the_answer_of_an_earlier_run_is_given_again_and_nothing_is_sent(run: Run, server: Server) -> None:
    server.script = [Reply(201, {"id": "ch_1"})]
    with client(server) as http:
        with through(run, key="k"):
            http.post("/charges", json={"amount": 7})
        with through(begin(run.task_id, by=None), key="k"):
            again = http.post("/charges", json={"amount": 7})
    assert (again.status_code, again.json(), again.headers["content-type"]) == (201, {"id": "ch_1"}, "application/json")
    assert len(server.writes) == 1


def test_tries_that_wait_to_be_made_again_are_forgotten_in_time(
    run: Run, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentstop.integrations.http.flight.MOST", 3)
    server.script = [Reply(500)]
    gated = GatedTransport("keyed")
    with httpx.Client(transport=gated, base_url=server.address) as http:
        for number in range(5):
            with through(run, key=f"k{number}"):
                http.post("/charges")
        assert len(gated.flights) == 3
        server.script = [Reply(200)]
        with through(run, key="k4"):
            http.post("/charges")
        assert len(gated.flights) == 2


def test_within_an_operation_each_send_asks_its_pass(run: Run, server: Server) -> None:
    with client(server) as http, run.dispatch("charge", {}, key="k", connector="keyed") as op, through(op):
        before = op.let_through
        assert http.post("/charges").status_code == 200
        assert (before, op.let_through) == (False, True)
        assert http.get("/charges/1").status_code == 200
        stop(run.task_id)
        assert op.stop_signal.wait(HANG_GUARD)
        with pytest.raises(PassExpired):
            http.post("/charges")
        assert http.get("/charges/1").status_code == 200
        op.succeeded()
    assert [each.key for each in server.writes] == [op.idempotency_key]


@pytest.mark.parametrize(("connector", "writes"), [("plain", 1), ("keyed", 2)])
def test_within_an_operation_a_lost_answer_is_asked_for_again_only_where_that_is_harmless(
    run: Run, server: Server, connector: str, writes: int
) -> None:
    server.script = [Reply(500), Reply()]
    with client(server, connector) as http, run.dispatch("charge", {}, key="k", connector=connector) as op, through(op):
        http.post("/charges")
        if connector == "plain":
            with pytest.raises(OutcomeUnknown, match="Nothing more was sent"):
                http.post("/charges")
        else:
            assert http.post("/charges").status_code == 200
            op.succeeded()
    assert len(server.writes) == writes


@pytest.mark.parametrize(
    ("options", "sentence"), [({"idempotency_format": "naked"}, "bare or quoted"), ({"body_cap": 0}, "body_cap is 0")]
)
def test_a_bad_option_says_what_to_do(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        GatedTransport("keyed", **options)
