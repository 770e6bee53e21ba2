"""What must hold of every fold, whatever was heard: a promise names the faults that it finds in one set of receipts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from agentstop.states import (
    FINAL_CLAIMS,
    FINAL_STATES,
    SIGNS_OF_LIFE,
    AttemptFact,
    Claim,
    OperationState,
    ReceiptFact,
    Source,
)
from tests.folding.scenes import StateFold, at, facts, read_back, receipt

NOW = at(100)
PROVIDER = {Source.READ_BACK, Source.PROVIDER}
TRUSTED = PROVIDER | {Source.PERSON}
FINISHED_CLAIMS = [Claim.SUCCEEDED, Claim.FAILED, Claim.CANCELLED]
HEARSAY = [
    receipt("lost", "sender", 60, attempt=1),
    receipt("cancelled", "ack", 60),
    receipt("running", "intermediary", 60),
    receipt("cancelled", "intermediary", 60),
    read_back("not_found", 60, authoritative=False),
]


@dataclass(frozen=True)
class Case:
    """One set of receipts, in the order of their moments, and the state that the fold under test gives it."""

    fold: StateFold
    attempts: list[AttemptFact]
    receipts: list[ReceiptFact]

    def state_with(self, *more: ReceiptFact) -> OperationState:
        return self.fold(facts(self.attempts, [*self.receipts, *more]), NOW)

    def without_people(self) -> Case:
        return Case(self.fold, self.attempts, [r for r in self.receipts if r.source is not Source.PERSON])

    def has(self, claims: set[Claim] | frozenset[Claim], sources: set[Source]) -> bool:
        return any(r.claim in claims and r.source in sources for r in self.receipts)


def finals_rest_on_words(case: Case, state: OperationState) -> Iterator[str]:
    """R14: cancelled and succeeded only on the word of the provider or a person."""
    if state in (OperationState.CANCELLED, OperationState.SUCCEEDED) and not case.has({Claim(state)}, TRUSTED):
        yield f"{state} on weak evidence"
    if state is OperationState.NOT_SENT and case.has(FINAL_CLAIMS | SIGNS_OF_LIFE, PROVIDER):
        yield "not sent though the provider was heard positively"


def every_attempt_is_accounted_for(case: Case, state: OperationState) -> Iterator[str]:
    """Nothing reads as without effect while one attempt may have had it."""
    if state not in (OperationState.FAILED, OperationState.CANCELLED, OperationState.NOT_SENT):
        return
    closing = {Claim.UNSENT, Claim.ENDED, Claim.REFUSED, Claim.FAILED}
    for attempt in case.attempts:
        own = any(r.attempt == attempt.number and r.claim in closing for r in case.receipts)
        if not own and not any(_may_close(r, attempt) for r in case.receipts):
            yield f"{state} while an attempt is unaccounted for"


def _may_close(receipt: ReceiptFact, attempt: AttemptFact) -> bool:
    if receipt.source is Source.PERSON:
        return True
    if receipt.attempt is not None:
        return False
    without_effect = receipt.claim in (Claim.FAILED, Claim.CANCELLED) and receipt.asked_at > attempt.passed_at
    return without_effect or receipt.claim is Claim.NOT_FOUND


def a_later_look_up_that_says_running_is_believed(case: Case, state: OperationState) -> Iterator[str]:
    if state not in (OperationState.FAILED, OperationState.CANCELLED, OperationState.NOT_SENT):
        return
    if not case.receipts or case.has(set(Claim), {Source.PERSON}):
        return
    for running in case.receipts:
        others = [r.seen_at for r in case.receipts if r is not running]
        is_running = running.claim is Claim.RUNNING and running.source is Source.READ_BACK
        if is_running and all(running.asked_at > seen for seen in others):
            yield f"{state} though read back running afterwards"


def what_the_provider_forgot_is_not_active(case: Case, state: OperationState) -> Iterator[str]:
    """R22: a provider that forgets ends as unknown."""
    last = case.receipts[-1] if case.receipts else None
    forgotten = last is not None and last.claim is Claim.NOT_FOUND and last.source is Source.READ_BACK
    if forgotten and last is not None and last.authoritative and state is OperationState.ACCEPTED:
        yield "accepted though the provider has forgotten it"


def refusals_of_all_attempts_are_no_mystery(case: Case, state: OperationState) -> Iterator[str]:
    refused = {r.attempt for r in case.receipts if (r.claim, r.source) == (Claim.REFUSED, Source.PROVIDER)}
    alone = all((r.claim, r.source) == (Claim.REFUSED, Source.PROVIDER) for r in case.receipts)
    if alone and refused == {a.number for a in case.attempts} and state is not OperationState.FAILED:
        yield "every attempt refused, and not failed"


def sending_needs_a_live_and_silent_attempt(case: Case, state: OperationState) -> Iterator[str]:
    silent = [a for a in case.attempts if not any(r.attempt == a.number for r in case.receipts)]
    if state is OperationState.SENDING and not any(a.lease_until > NOW for a in silent):
        yield "sending without a live, silent attempt"


def a_person_can_settle_what_is_unknown(case: Case, state: OperationState) -> Iterator[str]:
    """R23."""
    last = case.receipts[-1] if case.receipts else None
    settled = last is not None and last.source is Source.PERSON and last.claim in FINAL_CLAIMS
    if settled and state is OperationState.UNKNOWN:
        yield "a person cannot settle it"


def a_person_does_not_overrule_the_provider(case: Case, state: OperationState) -> Iterator[str]:
    machines = case.without_people()
    before = machines.state_with()
    if before not in FINAL_STATES:
        return
    for claim in FINISHED_CLAIMS:
        if machines.state_with(receipt(claim, "person", 60)) is not before:
            yield "a person overrules the provider"


def a_later_look_up_corrects(case: Case, state: OperationState) -> Iterator[str]:
    for claim in FINISHED_CLAIMS:
        if case.state_with(read_back(claim, 5000)) is not OperationState(claim):
            yield "a later read-back cannot correct it"


def hearsay_changes_nothing_final(case: Case, state: OperationState) -> Iterator[str]:
    """Of what the provider said about the effect; what was only proven absent, or settled by a person, may reopen."""
    reopened = {Claim.REFUSED, Claim.UNSENT, Claim.ENDED, Claim.NOT_FOUND}
    if state not in FINAL_STATES or case.has(set(Claim), {Source.PERSON}) or case.has(reopened, set(Source)):
        return
    for weak in HEARSAY:
        if case.state_with(weak) is not state:
            yield f"{weak.claim} by {weak.source} changes a final state"


Promise = Callable[[Case, OperationState], Iterator[str]]
OF_EACH_SET: list[Promise] = [
    finals_rest_on_words,
    every_attempt_is_accounted_for,
    a_later_look_up_that_says_running_is_believed,
    what_the_provider_forgot_is_not_active,
    refusals_of_all_attempts_are_no_mystery,
    sending_needs_a_live_and_silent_attempt,
    a_person_can_settle_what_is_unknown,
]
OF_WHAT_FOLLOWS: list[Promise] = [
    a_person_does_not_overrule_the_provider,
    a_later_look_up_corrects,
    hearsay_changes_nothing_final,
]
