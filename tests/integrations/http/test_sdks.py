"""The retries inside real SDKs die with the stop (R10): `openai`, `anthropic` and `stripe`, on a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import anthropic
import httpx
import httpx2
import openai
import pytest
import stripe
from django.contrib.auth.models import User

from agentstop.exceptions import InFlight, OutcomeUnknown, Stopped
from agentstop.integrations.http.for_anthropic import aas_they_are, as_they_are
from agentstop.integrations.http.for_httpx import GatedTransport
from agentstop.integrations.http.for_httpx2 import AsyncGatedTransport as AsyncGatedTransport2
from agentstop.integrations.http.for_httpx2 import GatedTransport as GatedTransport2
from agentstop.integrations.http.scope import through
from agentstop.models import Decision
from agentstop.runs import Run, begin
from agentstop.stop import astop, stop
from tests.integrations.http.server import Reply, Server
from tests.observed import of_key

pytestmark = pytest.mark.django_db(transaction=True)

RETRY_NOW = {"retry-after-ms": "1"}
BROKEN = Reply(500, {"error": {"message": "oh"}}, RETRY_NOW)
BATCH = {
    "id": "batch_1",
    "object": "batch",
    "endpoint": "/v1/responses",
    "status": "validating",
    "input_file_id": "file_1",
    "completion_window": "24h",
    "created_at": 1,
}
MESSAGES = {
    "id": "msgbatch_1",
    "type": "message_batch",
    "processing_status": "in_progress",
    "request_counts": {"processing": 1, "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0},
    "created_at": "2026-01-01T00:00:00Z",
    "expires_at": "2026-01-02T00:00:00Z",
}
INTENT = {"id": "pi_1", "object": "payment_intent", "status": "succeeded"}


@pytest.fixture
def run(ann: User) -> Run:
    return begin("agent", owner=ann)


def of_openai(server: Server, http: httpx2.Client | None = None) -> openai.OpenAI:
    return openai.OpenAI(api_key="s3cret", base_url=server.address, max_retries=2, http_client=http)


def create(client: openai.OpenAI) -> str:
    batch = client.batches.create(completion_window="24h", endpoint="/v1/responses", input_file_id="file_1")
    return batch.id


@contextmanager
def stopping(http: Any, run: Run) -> Iterator[None]:
    """Stop is pressed when the first response has arrived, before the SDK has looked at it."""
    http.event_hooks = {"response": [lambda response: stop(run.task_id)]}
    yield


def test_openai_ungated_goes_on_sending_after_the_stop(run: Run, server: Server) -> None:
    server.script = [BROKEN]
    with httpx2.Client() as http, stopping(http, run), pytest.raises(openai.InternalServerError):
        create(of_openai(server, http))
    assert len(server.writes) == 3  # stopped after the first


def test_openai_gated_tries_again_while_the_run_is_live(run: Run, server: Server) -> None:
    server.script = [BROKEN, BROKEN, Reply(200, BATCH)]
    with httpx2.Client(transport=GatedTransport2("keyed")) as http, through(run, key="batch:q3"):
        assert create(of_openai(server, http)) == "batch_1"
    assert len(server.writes) == 3
    assert {each.key for each in server.writes} == {str(of_key(run.task_id, "batch:q3").operation.idempotency_key)}


def test_openai_gated_sends_exactly_once_after_the_stop(run: Run, server: Server) -> None:
    server.script = [BROKEN]
    with httpx2.Client(transport=GatedTransport2("keyed")) as http, stopping(http, run):
        with through(run, key="batch:q3"), pytest.raises(Stopped):
            create(of_openai(server, http))
        with pytest.raises(openai.InternalServerError):
            of_openai(server, http).batches.retrieve("batch_1")  # reads go on, retries and all
    assert (len(server.writes), len(server.arrived)) == (1, 4)
    assert Decision.objects.get(verb="refuse").reason == "stopped"


def test_openai_gated_in_coroutines_sends_exactly_once_after_the_stop(run: Run, server: Server) -> None:
    server.script = [BROKEN]

    async def pressed(_: Any) -> None:
        await astop(run.task_id)

    async def main() -> None:
        async with httpx2.AsyncClient(transport=AsyncGatedTransport2("keyed")) as http:
            http.event_hooks = {"response": [pressed]}
            client = openai.AsyncOpenAI(api_key="s3cret", base_url=server.address, max_retries=2, http_client=http)
            with through(run, key="batch:q3"), pytest.raises(Stopped):
                await client.batches.create(completion_window="24h", endpoint="/v1/responses", input_file_id="file_1")

    asyncio.run(main())
    assert len(server.writes) == 1


def test_openai_does_not_repeat_where_that_may_be_done_twice(run: Run, server: Server) -> None:
    """The interface honours no key: a retry after an error may make a second batch, and is not sent (R11)."""
    server.script = [BROKEN]
    with httpx2.Client(transport=GatedTransport2("plain")) as http, through(run, key="batch:q3"):
        client = of_openai(server, http)
        with pytest.raises((InFlight, OutcomeUnknown)):
            create(client)
    assert len(server.writes) == 1


def of_anthropic(server: Server, http: httpx2.Client, *middleware: Any) -> anthropic.Anthropic:
    return anthropic.Anthropic(
        api_key="s3cret", base_url=server.address, max_retries=2, http_client=http, middleware=middleware
    )


def create_batch(client: anthropic.Anthropic) -> str:
    return client.messages.batches.create(requests=[]).id


def test_anthropic_ungated_goes_on_sending_after_the_stop(run: Run, server: Server) -> None:
    server.script = [BROKEN]
    with httpx2.Client() as http, stopping(http, run), pytest.raises(anthropic.InternalServerError):
        create_batch(of_anthropic(server, http))
    assert len(server.writes) == 3  # stopped after the first


def test_anthropic_gated_tries_again_while_the_run_is_live(run: Run, server: Server) -> None:
    server.script = [BROKEN, BROKEN, Reply(200, MESSAGES)]
    with httpx2.Client(transport=GatedTransport2("keyed")) as http, through(run, key="batch:q3"):
        assert create_batch(of_anthropic(server, http, as_they_are)) == "msgbatch_1"
    operation = of_key(run.task_id, "batch:q3").operation
    assert {each.key for each in server.writes} == {str(operation.idempotency_key)}
    assert (len(server.writes), operation.attempts) == (3, 1)
    assert "s3cret" not in operation.summary


@pytest.mark.parametrize("middleware", [[as_they_are], []], ids=["as they are", "wrapped"])
def test_anthropic_gated_sends_exactly_once_after_the_stop(run: Run, server: Server, middleware: list[Any]) -> None:
    """By itself the SDK takes a refusal for a broken connection, and asks the gate again, which sends nothing."""
    server.script = [BROKEN]
    with httpx2.Client(transport=GatedTransport2("keyed")) as http, stopping(http, run):
        with (
            through(run, key="batch:q3"),
            pytest.raises(Stopped if middleware else anthropic.APIConnectionError) as told,
        ):
            create_batch(of_anthropic(server, http, *middleware))
        with pytest.raises(anthropic.InternalServerError):
            of_anthropic(server, http, *middleware).messages.batches.retrieve("msgbatch_1")  # reads go on, with retries
    assert (len(server.writes), len(server.arrived)) == (1, 4)
    assert isinstance(told.value if middleware else told.value.__cause__, Stopped)
    assert Decision.objects.get(verb="refuse").reason == "stopped"


def test_anthropic_gated_in_coroutines_sends_exactly_once_after_the_stop(run: Run, server: Server) -> None:
    server.script = [BROKEN]

    async def pressed(_: Any) -> None:
        await astop(run.task_id)

    async def main() -> None:
        async with httpx2.AsyncClient(transport=AsyncGatedTransport2("keyed")) as http:
            http.event_hooks = {"response": [pressed]}
            client = anthropic.AsyncAnthropic(
                api_key="s3cret", base_url=server.address, http_client=http, middleware=[aas_they_are]
            )
            with through(run, key="batch:q3"), pytest.raises(Stopped):
                await client.messages.batches.create(requests=[])

    asyncio.run(main())
    assert len(server.writes) == 1


class StripeClient(stripe.HTTPClient):
    """How Stripe's SDK is given a client: by a class of its own kind."""

    name = "gated"

    def __init__(self, http: httpx.Client) -> None:
        super().__init__()
        self.http = http

    def request(self, method: str, url: str, headers: Mapping[str, str] | None, post_data: Any = None, **_: Any) -> Any:
        try:
            answer = self.http.request(method, url, headers=dict(headers or {}), content=post_data)
        except httpx.HTTPError as error:
            raise stripe.APIConnectionError(str(error), should_retry=True) from error  # type: ignore[no-untyped-call]
        return answer.content, answer.status_code, answer.headers

    def close(self) -> None:
        self.http.close()

    @staticmethod
    def _sleep_time_seconds(*_: Any, **__: Any) -> float:
        return 0.0


def of_stripe(server: Server, http: httpx.Client) -> stripe.StripeClient:
    return stripe.StripeClient(
        "sk_test_s3cret",
        http_client=StripeClient(http),
        base_addresses={"api": server.address},
        max_network_retries=2,
    )


def pay(client: stripe.StripeClient, **options: Any) -> str:
    intent = client.v1.payment_intents.create(params={"amount": 7, "currency": "eur"}, options=options)  # type: ignore[arg-type]
    return intent.id


def test_stripe_ungated_goes_on_sending_after_the_stop(run: Run, server: Server) -> None:
    server.script = [BROKEN]
    with httpx.Client() as http, stopping(http, run), pytest.raises(stripe.APIError):
        pay(of_stripe(server, http))
    assert len(server.writes) == 3


def test_stripe_gated_tries_again_with_the_operations_key_while_the_run_is_live(run: Run, server: Server) -> None:
    server.script = [BROKEN, Reply(reset=True), Reply(200, INTENT)]
    with httpx.Client(transport=GatedTransport("keyed")) as http, through(run):
        assert pay(of_stripe(server, http), idempotency_key="order:7") == "pi_1"
    operation = of_key(run.task_id, "order:7").operation
    assert {each.key for each in server.writes} == {str(operation.idempotency_key)}
    assert (len(server.writes), operation.attempts) == (3, 1)
    assert "s3cret" not in operation.summary


def test_stripe_gated_sends_exactly_once_after_the_stop(run: Run, server: Server) -> None:
    server.script = [BROKEN]
    with httpx.Client(transport=GatedTransport("keyed")) as http, stopping(http, run):
        with through(run, key="order:7"), pytest.raises(Stopped):
            pay(of_stripe(server, http))
        with pytest.raises(stripe.APIError):
            of_stripe(server, http).v1.payment_intents.retrieve("pi_1")
    assert len(server.writes) == 1
    assert of_key(run.task_id, "order:7").label == "unknown"


def test_stripe_gated_asked_again_by_a_new_run_pays_once(run: Run, server: Server) -> None:
    server.script = [Reply(200, INTENT)]
    with httpx.Client(transport=GatedTransport("keyed")) as http:
        with through(run, key="order:7"):
            pay(of_stripe(server, http))
        with through(begin(run.task_id), key="order:7"):
            assert pay(of_stripe(server, http)) == "pi_1"
    assert len(server.writes) == 1
