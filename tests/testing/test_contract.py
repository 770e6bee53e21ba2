"""The contract suite on our own provider, and what it says of providers that break the contract."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from agentstop.providers.base import (
    Answer,
    Capability,
    Context,
    Provider,
    Submission,
    SubmitIdempotency,
)
from agentstop.providers.http import HttpProvider
from agentstop.states import Claim
from agentstop.testing.contract import checks
from agentstop.testing.contract.suite import ProviderContract
from agentstop.testing.contract.trial import Broken, NotTried, Subject
from agentstop.testing.sandbox.client import SandboxClient
from agentstop.testing.sandbox.connector import sandbox_options
from agentstop.testing.sandbox.process import RunningSandbox
from tests.providers.calls import closed_port
from tests.testing.bad_providers import (
    CancelClosesTheConnection,
    CannotBeClosedTwice,
    ContradictsItself,
    DoesNotEnd,
    FindsNothing,
    FindsWhatIsNot,
    IsUndoneByNothing,
    KnowsEveryAction,
    LooksUpBySending,
    NeverAsks,
    SaysCancelledAndGoesOn,
    SaysDoneWithoutSending,
    SwallowsTheVoidPass,
    TakesRefusalForDone,
    TakesSilenceForFailure,
    TakesSilenceForUnsent,
    TakesUnsentForDone,
    TellsItsSecret,
)

SECRET = "Bearer s3cret"


@pytest.fixture
def desk(sandbox_process: RunningSandbox) -> Iterator[SandboxClient]:
    """The sandbox with an empty ledger; no database, since a provider knows none."""
    sandbox_process.client.reset()
    yield sandbox_process.client
    sandbox_process.client.reset()


def options(address: str) -> dict[str, Any]:
    return {**sandbox_options(address, settling=timedelta(0)), "headers": {"Authorization": SECRET}}


def subject_of(desk: SandboxClient, action: str, **more: Any) -> Subject:
    def settled(key: str) -> None:
        if desk.effects(key):
            desk.settled(key)

    given = {
        "provider": lambda: HttpProvider(**options(desk.address)),
        "action": action,
        "effects": lambda key: desk.counts(key)["writes"],
        "args": {"text": "one", "seconds": 0},
        "settled": settled,
        "losing": {"text": "two", "seconds": 0, "sandbox": {"lose_response": True}},
        "refused": {"text": "three", "sandbox": {"refuse": True}},
        "unreachable": lambda: HttpProvider(**options(closed_port())),
        "secrets": [SECRET, "s3cret"],
    }
    return Subject(**{**given, **more})


class TestHttpJobs(ProviderContract):
    @pytest.fixture
    def subject(self, desk: SandboxClient) -> Subject:
        return subject_of(desk, "report.create", lasting={"text": "four", "seconds": 600})


class TestHttpJobsByKey(ProviderContract):
    @pytest.fixture
    def subject(self, desk: SandboxClient) -> Subject:
        return subject_of(desk, "report.by_key", lasting={"text": "four", "seconds": 600})


class TestHttpNotifications(ProviderContract):
    @pytest.fixture
    def subject(self, desk: SandboxClient) -> Subject:
        return subject_of(desk, "notify.post", hanging={"text": "five", "seconds": 600})


def test_every_check_is_tried_on_one_of_ours(desk: SandboxClient) -> None:
    subjects = [
        subject_of(desk, "report.create", lasting={"text": "four", "seconds": 600}),
        subject_of(desk, "notify.post", hanging={"text": "five", "seconds": 600}),
    ]
    for check in checks.CHECKS:
        assert any(_tried(check, subject) for subject in subjects), check.__name__


def _tried(check: checks.Check, subject: Subject) -> bool:
    try:
        asyncio.run(checks.put_to(check, subject))
    except NotTried:
        return False
    return True


LONG = {"lasting": {"text": "four", "seconds": 600}}
SHORTLY = {"lasting": {"text": "four", "seconds": 0.5}}
Case = tuple[type[Provider], Callable[..., Any], str, dict[str, Any]]
BROKEN: list[Case] = [
    (NeverAsks, checks.the_pass_is_asked_before_the_write, "without calling", {}),
    (NeverAsks, checks.a_void_pass_sends_nothing, "did not let it through", {}),
    (NeverAsks, checks.a_void_pass_sends_no_cancel, "did not let it through", LONG),
    (NeverAsks, checks.a_cancel_is_told_as_what_it_was, "cancelled without calling", LONG),
    (SwallowsTheVoidPass, checks.a_void_pass_sends_nothing, "did not let it through", {}),
    (SaysDoneWithoutSending, checks.a_submit_is_told_as_what_it_was, "the ledger has 0 effects", {}),
    (TakesSilenceForFailure, checks.a_lost_answer_is_told_as_lost, "it said failed", {}),
    (TakesSilenceForUnsent, checks.a_lost_answer_is_told_as_lost, "it said unsent", {}),
    (TakesUnsentForDone, checks.without_a_connection_nothing_is_claimed, "it said succeeded", {}),
    (TakesRefusalForDone, checks.a_refused_request_is_told_as_one_without_effect, "it said succeeded", {}),
    (LooksUpBySending, checks.a_look_up_has_no_effect_and_finds_nothing_where_nothing_is, "made an effect", {}),
    (FindsNothing, checks.what_was_done_is_found, "looked up it is not_found", {}),
    (FindsWhatIsNot, checks.a_look_up_has_no_effect_and_finds_nothing_where_nothing_is, "it is succeeded", {}),
    (TellsItsSecret, checks.a_submit_is_told_as_what_it_was, "told a secret", {}),
    (ContradictsItself, checks.the_record_is_one_and_agrees_with_itself, "submit is not key", {}),
    (IsUndoneByNothing, checks.what_undoes_it_is_an_action_of_it, "which is no action of it", {}),
    (KnowsEveryAction, checks.an_unknown_action_is_a_lookup_error, "raised no LookupError", {}),
    (SaysCancelledAndGoesOn, checks.a_cancel_is_told_as_what_it_was, "the ledger has 1 effects", SHORTLY),
]


@pytest.mark.parametrize(
    ("bad", "check", "sentence", "more"), BROKEN, ids=[f"{bad.__name__}-{check.__name__}" for bad, check, *_ in BROKEN]
)
def test_a_provider_that_breaks_the_contract_is_found_out(
    desk: SandboxClient, bad: Any, check: checks.Check, sentence: str, more: dict[str, Any]
) -> None:
    subject = subject_of(desk, "report.create", provider=lambda: bad(**options(desk.address)), **more)
    if bad is TakesUnsentForDone:
        subject = replace(subject, unreachable=lambda: bad(**options(closed_port())))
    with pytest.raises(Broken, match=sentence):
        asyncio.run(checks.put_to(check, subject))


def test_a_key_that_is_not_honoured_is_found_out(desk: SandboxClient) -> None:
    """Each send makes a note of its own, although the record says that the key is honoured."""
    made: list[str] = []

    class Forgets(Provider):
        def capability(self, action: str) -> Capability:
            return Capability(submit=SubmitIdempotency.KEY, key_life=timedelta(days=1))

        async def submit(self, submission: Submission, context: Context) -> Answer:
            context.before_write()
            made.append(submission.idempotency_key)
            return Answer(Claim.SUCCEEDED)

    subject = Subject(provider=Forgets, action="note.post", effects=made.count)
    with pytest.raises(Broken, match="the ledger has 2 effects"):
        asyncio.run(checks.put_to(checks.a_second_submit_does_what_the_record_says, subject))


def test_a_submit_that_swallows_being_told_to_end_is_found_out(
    desk: SandboxClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "GUARD", 0.2)
    DoesNotEnd.gave_up.clear()
    subject = subject_of(
        desk, "notify.post", provider=lambda: DoesNotEnd(**options(desk.address)), hanging={"text": "five"}
    )

    async def checked() -> None:
        try:
            await checks.put_to(checks.a_submit_ends_at_its_deadline, subject)
        finally:
            DoesNotEnd.gave_up.set()

    with pytest.raises(Broken, match="nor when it was told to"):
        asyncio.run(checked())


def test_closing_twice_and_closing_for_others_are_found_out(desk: SandboxClient) -> None:
    twice = subject_of(desk, "report.create", provider=lambda: CannotBeClosedTwice(**options(desk.address)))
    with pytest.raises(RuntimeError, match="closed already"):
        asyncio.run(checks.put_to(checks.closing_twice_is_harmless, twice))
    closes = lambda: CancelClosesTheConnection(**options(desk.address))  # noqa: E731
    others = subject_of(desk, "report.create", provider=closes, **LONG)
    with pytest.raises(Broken, match="lost by a cancel"):
        asyncio.run(checks.put_to(checks.a_cancel_leaves_others_on_the_connection_alone, others))
