"""Redirects and replays of a login are further sends of one write, and other hosts get no secret."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from django.contrib.auth.models import User

from agentstop.exceptions import Stopped
from agentstop.integrations.http.for_httpx import GatedTransport
from agentstop.integrations.http.scope import through
from agentstop.models import Attempt
from agentstop.runs import Run, begin
from agentstop.stop import stop
from tests.integrations.http.server import Arrived, Reply, Server, serving
from tests.observed import of_key

pytestmark = pytest.mark.django_db(transaction=True)

HEADERS = {"Authorization": "Bearer s3cret", "X-Api-Key": "s3cret", "Cookie": "session=s3cret", "X-Trace": "t-1"}


@pytest.fixture
def run(ann: User) -> Run:
    return begin("charge", owner=ann)


@pytest.fixture
def http(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(
        transport=GatedTransport("keyed"), base_url=server.address, headers=HEADERS, follow_redirects=True
    ) as client:
        yield client


def attempts(run: Run) -> int:
    return Attempt.objects.filter(operation=of_key(run.task_id, "k").operation).count()


@pytest.mark.parametrize("status", [307, 308])
def test_a_redirect_within_the_host_is_the_same_attempt(
    run: Run, server: Server, http: httpx.Client, status: int
) -> None:
    server.script = [Reply(status, headers={"location": "/v2/charges"}), Reply(201, {"id": 7})]
    with through(run, key="k"):
        assert http.post("/charges", json={"amount": 7}).json() == {"id": 7}
    assert [each.path for each in server.writes] == ["/charges", "/v2/charges"]
    assert len({each.key for each in server.writes}) == 1
    assert (of_key(run.task_id, "k").state, attempts(run)) == ("succeeded", 1)


@pytest.mark.parametrize("status", [307, 308])
def test_another_host_gets_the_body_and_neither_key_nor_login(
    run: Run, server: Server, http: httpx.Client, status: int
) -> None:
    with serving() as other:
        server.script = [Reply(status, headers={"location": f"{other.address}/charges"})]
        other.script = [Reply(201)]
        with through(run, key="k"):
            assert http.post("/charges", json={"amount": 7}).status_code == 201
        [arrived] = other.writes
    assert arrived.body == b'{"amount":7}'
    assert "s3cret" not in repr(arrived)
    assert {"idempotency-key", "x-trace", "authorization", "cookie", "x-api-key"} & set(arrived.headers) == set()
    assert of_key(run.task_id, "k").state == "succeeded"


def test_a_redirect_that_makes_a_read_of_it_tells_another_host_no_secret(
    run: Run, server: Server, http: httpx.Client
) -> None:
    with serving() as other:
        server.script = [Reply(303, headers={"location": f"{other.address}/done"})]
        with through(run, key="k"):
            assert http.post("/charges").status_code == 200
        [arrived] = other.arrived
    assert (arrived.method, arrived.key) == ("GET", "")
    assert "s3cret" not in repr(arrived)
    assert of_key(run.task_id, "k").state == "unknown"  # where it leads proves nothing about the write


@pytest.mark.parametrize("status", [303, 307])
def test_within_an_operation_another_host_gets_neither_key_nor_login(
    run: Run, server: Server, http: httpx.Client, status: int
) -> None:
    with serving() as other:
        server.script = [Reply(status, headers={"location": f"{other.address}/charges"})]
        with run.dispatch("charge", {}, key="k", connector="keyed") as op, through(op):
            assert http.post("/charges", json={"amount": 7}).status_code == 200
            op.succeeded()
        [arrived] = other.arrived
    assert server.writes[0].key == op.idempotency_key
    assert "s3cret" not in repr(arrived)
    assert arrived.key == ""


def test_a_redirect_loop_ends(run: Run, server: Server, http: httpx.Client) -> None:
    server.script = [Reply(307, headers={"location": "/charges"})]
    http.max_redirects = 5
    with through(run, key="k"), pytest.raises(httpx.TooManyRedirects):
        http.post("/charges")
    assert len(server.writes) == 6
    assert (of_key(run.task_id, "k").state, attempts(run)) == ("unknown", 1)


def test_a_stop_ends_a_redirect_loop(run: Run, server: Server, http: httpx.Client) -> None:
    """Stopped while a response is on its way to the client: the next hop is refused."""
    server.script = [Reply(307, headers={"location": "/charges"})]
    http.event_hooks = {"response": [lambda response: stop(run.task_id) if len(server.writes) == 2 else None]}
    with through(run, key="k"), pytest.raises(Stopped):
        http.post("/charges")
    assert len(server.writes) == 2


def challenge(arrived: Arrived) -> Reply:
    if arrived.headers.get("authorization", "").startswith("Digest "):
        return Reply(201)
    return Reply(401, headers={"www-authenticate": 'Digest realm="r", nonce="n", qop="auth", algorithm=MD5'})


def test_a_login_is_replayed_within_the_attempt(run: Run, server: Server, http: httpx.Client) -> None:
    server.script = [challenge]
    with through(run, key="k"):
        assert http.post("/charges", auth=httpx.DigestAuth("ann", "ann")).status_code == 201
    assert len(server.writes) == 2
    assert (of_key(run.task_id, "k").state, attempts(run)) == ("succeeded", 1)


def test_a_login_is_not_replayed_after_a_stop(run: Run, server: Server, http: httpx.Client) -> None:
    def stopping(arrived: Arrived) -> Reply:
        return challenge(arrived)

    class Stopping(httpx.DigestAuth):
        def auth_flow(self, request: httpx.Request):  # type: ignore[no-untyped-def]
            flow = super().auth_flow(request)
            response = yield next(flow)
            stop(run.task_id)
            yield flow.send(response)

    server.script = [stopping]
    with through(run, key="k"), pytest.raises(Stopped):
        http.post("/charges", auth=Stopping("ann", "ann"))
    assert len(server.writes) == 1
