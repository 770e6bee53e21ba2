"""The sandbox through `HttpProvider`, as its connector describes it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from agentstop.providers.base import Answer, CancelReply, Context, Extent, Submission
from agentstop.providers.http import HttpProvider
from agentstop.states import Claim
from agentstop.testing.sandbox.client import SandboxClient
from agentstop.testing.sandbox.connector import sandbox_connector, sandbox_options
from tests.testing.requests import GUARD


class TestConnector:
    """The same through `HttpProvider`, as the connector describes the sandbox."""

    def test_its_entry_for_the_settings_makes_a_provider(self, client: SandboxClient) -> None:
        entry = sandbox_connector(client.address)
        assert entry["PROVIDER"] == f"{HttpProvider.__module__}.{HttpProvider.__name__}"
        assert HttpProvider(**entry["OPTIONS"]).capability("report.create").cancellable

    def test_a_report_is_created_looked_up_and_cancelled(self, client: SandboxClient) -> None:
        async def story(provider: HttpProvider) -> tuple[Answer, Answer | None, CancelReply, Answer | None]:
            submitted = await provider.submit(report(seconds=60), freely())
            running = await provider.look_up(report(), deadline=GUARD)
            reply = await provider.cancel(report(ref=submitted.ref), freely())
            return submitted, running, reply, await provider.look_up(report(), deadline=GUARD)

        submitted, running, reply, after = run(client, story)
        assert running is not None
        assert after is not None
        assert reply.answer is not None
        assert [answer.claim for answer in (submitted, running, reply.answer, after)] == [
            Claim.ACCEPTED,
            Claim.RUNNING,
            Claim.CANCELLED,
            Claim.CANCELLED,
        ]
        assert {answer.ref for answer in (submitted, running, reply.answer, after)} == {client.effects("k")[0]["ref"]}
        assert after.at is not None

    def test_what_never_arrived_is_not_found_with_authority(self, client: SandboxClient) -> None:
        async def story(provider: HttpProvider) -> Answer | None:
            return await provider.look_up(report(), deadline=GUARD)

        answer = run(client, story)
        assert answer is not None
        assert (answer.claim, answer.authoritative) == (Claim.NOT_FOUND, True)

    @pytest.mark.parametrize("switch", ["drop", "lose_response"])
    def test_a_lost_answer_is_found_again_by_its_key(self, client: SandboxClient, switch: str) -> None:
        async def story(provider: HttpProvider) -> tuple[Answer, Answer | None]:
            lost = await provider.submit(report(seconds=60 * (switch == "drop"), sandbox={switch: True}), freely())
            return lost, await provider.look_up(report(), deadline=GUARD)

        lost, found = run(client, story)
        assert found is not None
        assert (lost.claim, lost.ref, found.ref) == (Claim.LOST, "", client.effects("k")[0]["ref"])
        assert found.claim is (Claim.RUNNING if switch == "drop" else Claim.SUCCEEDED)
        assert client.counts("k")["submits"] == 1

    def test_a_failed_upload_is_failed(self, client: SandboxClient) -> None:
        async def story(provider: HttpProvider) -> Answer:
            return await provider.submit(report("file.upload", seconds=0, sandbox={"fail": True}), freely())

        assert run(client, story).claim is Claim.FAILED

    def test_a_blind_notification_sent_twice_has_two_effects(self, client: SandboxClient) -> None:
        async def story(provider: HttpProvider) -> None:
            for _ in range(2):
                await provider.submit(report("notify.blind", label="blind"), freely())

        run(client, story)
        assert client.writes(task="blind") == 2

    @pytest.mark.parametrize("action", ["report.create", "file.upload", "notify.post"])
    def test_what_was_done_is_undone_by_the_action_that_its_record_names(
        self, client: SandboxClient, action: str
    ) -> None:
        record = HttpProvider(**sandbox_options(client.address)).capability(action).compensation
        assert record is not None
        assert (record.extent is Extent.PARTIAL) == (action == "notify.post")
        assert record.consequences.endswith(".")

        async def story(provider: HttpProvider) -> tuple[Answer, Answer | None, Answer | None]:
            first = await provider.submit(report(action, seconds=0), freely())
            await asyncio.to_thread(client.settled, "k")
            undone = await provider.submit(undoing(record.action, first.ref), freely())
            own = await provider.look_up(undoing(record.action, first.ref), deadline=GUARD)
            return undone, own, await provider.look_up(report(action), deadline=GUARD)

        undone, own, original = run(client, story)
        assert own is not None
        assert original is not None
        assert [answer.claim for answer in (undone, own, original)] == [Claim.SUCCEEDED] * 3
        assert (undone.ref, own.ref, original.ref) == (
            own.ref,
            client.undos("k")[0]["ref"],
            client.effects("k")[0]["ref"],
        )
        assert client.effects("k")[0]["undone_at"]

    def test_an_undoing_without_an_answer_is_found_by_its_own_key(self, client: SandboxClient) -> None:
        async def story(provider: HttpProvider) -> tuple[Answer, Answer | None, Answer | None]:
            switches = {"forget_undone": True, "undo": {"lose_response": True}}
            await provider.submit(report("file.upload", seconds=0, sandbox=switches), freely())
            lost = await provider.submit(undoing("file.undo", ""), freely())
            own = await provider.look_up(undoing("file.undo", ""), deadline=GUARD)
            return lost, own, await provider.look_up(report("file.upload"), deadline=GUARD)

        lost, own, original = run(client, story)
        assert own is not None
        assert original is not None
        assert (lost.claim, own.claim, original.claim) == (Claim.LOST, Claim.SUCCEEDED, Claim.NOT_FOUND)

    def test_undoing_what_is_not_there_is_refused(self, client: SandboxClient) -> None:
        async def story(provider: HttpProvider) -> Answer:
            return await provider.submit(undoing("file.undo", "/uploads/7"), freely())

        assert run(client, story).claim is Claim.REFUSED


def report(action: str = "report.create", ref: str = "", **args: Any) -> Submission:
    return Submission(operation=1, action=action, args=args, idempotency_key="k", ref=ref)


def undoing(action: str, ref: str) -> Submission:
    args = {"original_ref": ref, "original_key": "k"}
    return Submission(operation=2, action=action, args=args, idempotency_key="u")


def freely() -> Context:
    return Context(before_write=lambda: None, deadline=GUARD)


def run(client: SandboxClient, story: Callable[[HttpProvider], Any]) -> Any:
    async def told() -> Any:
        provider = HttpProvider(**sandbox_options(client.address))
        try:
            return await story(provider)
        finally:
            await provider.aclose()

    return asyncio.run(told())
