"""What people can do about one operation besides stopping, and what came of it: it was undone, or settled by hand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.translation import gettext

from agentstop.accounts.account import Known
from agentstop.accounts.heard import Result
from agentstop.compensate import UNDER_WAY
from agentstop.folds.evidence import PROVIDERS_WORD
from agentstop.models import Operation
from agentstop.providers.base import Compensation, Extent
from agentstop.settlement import SETTLED_BY_HAND
from agentstop.states import Claim, OperationFacts, OperationState, ReceiptFact, Source
from agentstop.words import evidence_words, sentences
from agentstop.words.manifold import UNDONE_ONE_OF_SEVERAL
from agentstop.words.sentences import Tone

ANSWER = 300  # characters of a failure's answer that are shown
UNDONE_ONCE = frozenset({*UNDER_WAY, OperationState.SUCCEEDED})
WITHOUT_EFFECT = frozenset({Claim.FAILED, Claim.CANCELLED, Claim.REFUSED, Claim.NOT_FOUND})
# What a provider may say afterwards without differing from what a person has settled.
AGREES = {
    Claim.SUCCEEDED: frozenset({Claim.SUCCEEDED}),
    Claim.FAILED: frozenset({Claim.FAILED, Claim.REFUSED, Claim.NOT_FOUND}),
    Claim.CANCELLED: frozenset({Claim.CANCELLED, Claim.NOT_FOUND}),
}


@dataclass(frozen=True, slots=True)
class Named:
    """Another operation, to be linked."""

    id: int
    action: str
    key: str


@dataclass(frozen=True, slots=True)
class Undoing:
    """What the last undoing of an operation came to."""

    by: Named
    text: str
    tone: Tone
    answer: str  # the beginning of what the provider said when it failed


@dataclass(frozen=True, slots=True)
class Settling:
    """Who settled an operation by hand, as what, when and why, and what the provider has said since that differs."""

    by: str
    outcome: str
    at: datetime
    reason: str
    since: str
    since_at: datetime | None


def undoings_of(operations: Iterable[Known]) -> Mapping[int, Sequence[Known]]:
    """The operations that undo another one, by the one that they undo, earliest first."""
    found: dict[int, list[Known]] = defaultdict(list)
    for known in operations:
        if known.row.compensates_id is not None:
            found[known.row.compensates_id].append(known)
    return found


def way_to_undo(known: Known, undoings: Sequence[Known]) -> Compensation | None:
    """How it can be undone now; None where it is not known to exist, cannot be undone, or was or is being undone."""
    if known.folded.state is not OperationState.SUCCEEDED or known.row.compensates_id is not None:
        return None
    if any(each.folded.state in UNDONE_ONCE for each in undoings):
        return None
    return known.capability.compensation


def can_be_settled(known: Known) -> bool:
    """Whether no evidence has settled it, so that a person's word would."""
    return known.folded.state in SETTLED_BY_HAND


def is_told_by_evidence(known: Known) -> bool:
    """Whether asking the provider now would add nothing; a person's word alone is no reason not to ask."""
    if known.folded.state in SETTLED_BY_HAND:
        return False
    return all(receipt.source is not Source.PERSON for receipt in known.folded.decided_by)


def read_undoing(known: Known, undoings: Sequence[Known]) -> Undoing | None:
    """What its last undoing came to."""
    if not undoings:
        return None
    last = undoings[-1]
    text, tone = undoing_reads(last.folded.state, known.capability.compensation, doubled=known.folded.doubled)
    answer = said(last.result) if last.folded.state is OperationState.FAILED else ""
    return Undoing(named(last.row), gettext(text), tone, answer)


def undoing_reads(state: OperationState, way: Compensation | None, *, doubled: bool) -> tuple[str, Tone]:
    """What an undoing in this state reads as; `way` and `doubled` are of the operation that it undoes."""
    if state is OperationState.SUCCEEDED and doubled:
        return UNDONE_ONE_OF_SEVERAL, Tone.NOTICE
    if state is OperationState.SUCCEEDED and way is not None and way.extent is Extent.PARTIAL:
        return sentences.UNDONE_IN_PART, Tone.NOTICE
    return sentences.UNDOINGS[state]


def named(row: Operation) -> Named:
    return Named(row.pk, row.action, row.key)


def said(result: Result | None) -> str:
    """What the provider said about a failure, short enough to stand in a line."""
    if result is None or result.claim is Claim.SUCCEEDED:
        return ""
    text = " ".join(result.head.split())
    return text if len(text) <= ANSWER else text[: ANSWER - 1] + "…"


def read_settling(known: Known) -> Settling | None:
    """The last word of a person about it, beside what the provider has said since."""
    word = known.settled
    if word is None:
        return None
    claim = Claim(word.receipt.claim)
    differing = _differing(known.facts, claim, word.receipt.seen_at)
    return Settling(
        by=name_of(word.receipt.by) or gettext(sentences.A_PERSON),
        outcome=gettext(sentences.OUTCOMES[claim]),
        at=word.receipt.seen_at,
        reason=word.reason or gettext(evidence_words.ERASED),  # nobody settles without one
        since=gettext(sentences.SAID_SINCE[differing.claim]) if differing is not None else "",
        since_at=differing.seen_at if differing is not None else None,
    )


def _differing(facts: OperationFacts, claim: Claim, settled_at: datetime) -> ReceiptFact | None:
    """The provider's last word since then that differs; what an undoing explains does not."""
    later = [
        receipt
        for receipt in facts.receipts
        if receipt.source in PROVIDERS_WORD
        and receipt.seen_at > settled_at
        and receipt.claim in sentences.SAID_SINCE
        and receipt.claim not in AGREES[claim]
        and not _explained(receipt, facts.compensated_at)
    ]
    return max(later, key=lambda receipt: (receipt.seen_at, receipt.id), default=None)


def _explained(receipt: ReceiptFact, compensated_at: datetime | None) -> bool:
    return receipt.claim in WITHOUT_EFFECT and compensated_at is not None and receipt.asked_at >= compensated_at


def name_of(user: Any) -> str:
    """What a person is called: their full name, else their user name."""
    if user is None:
        return ""
    full = user.get_full_name() if hasattr(user, "get_full_name") else ""
    return str(full or user.get_username())
