"""What facts mean, written anew from the design's words and without the product's folds: the reference for states.

Every attempt is asked in turn what is known of it, where the product asks each rule in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from agentstop.providers.base import LookUp
from agentstop.states import FINAL_CLAIMS, SIGNS_OF_LIFE
from tests.soak import asked
from tests.soak.mirror import Attempt, Decision, Mirror, Operation, Receipt
from tests.soak.world import PROFILES

TRUSTED = ("read_back", "provider")
NAMES_NOTHING = ("refused", "unsent", "ended", "not_found")
PROVES_NOTHING_LEFT = (("unsent", "sender"), ("unsent", "provider"), ("ended", "sender"))


@dataclass(frozen=True, slots=True)
class Reading:
    """The state of one operation, how far cancelling got, whether its final words exclude each other, and its jobs."""

    state: str
    cancellation: str
    contradictory: bool
    another_open: bool  # it has succeeded, and another job of it may go on
    doubled: bool  # several jobs that are not known to have had no effect


def read(mirror: Mirror, operation: Operation, now: datetime) -> Reading:
    """What the facts in the mirror say of this operation at a moment."""
    story = Story(mirror, operation, now)
    state, contradictory = story.told()
    ends = [story.end_of(ref) for ref in story.refs()]
    another_open = state == "succeeded" and "succeeded" in ends and None in ends
    cancellation = asked.cancellation(story.open_refs(), mirror, operation, state, now, another_open=another_open)
    doubled = sum(end in (None, "succeeded") for end in ends) > 1
    return Reading(state, cancellation, contradictory, another_open, doubled)


class Story:
    """The submits of one operation, and everything that was heard about them."""

    def __init__(self, mirror: Mirror, operation: Operation, now: datetime) -> None:
        self.now = now
        self.attempts = mirror.submits(operation.id)
        self.all = frozenset(attempt.id for attempt in self.attempts)
        heard = mirror.of(Receipt, operation.id)
        self.heard = [r for r in heard if r.source != "ack" and (r.attempt_id is None or r.attempt_id in self.all)]
        self.refused_by_gate = any(decision.verb == "refuse" for decision in mirror.of(Decision, operation.id))
        undoings = [one.id for one in mirror.all(Operation) if one.compensates_id == operation.id]
        undoings = [one for one in undoings if _may_be_done(mirror.of(Receipt, one))]
        self.by_ref = PROFILES[operation.action].look_up is LookUp.BY_REF
        self.authoritative = PROFILES[operation.action].authoritative
        self.undone_from = min((a.passed_at for one in undoings for a in mirror.submits(one)), default=None)

    # Which attempts a receipt is about

    def about(self, receipt: Receipt) -> frozenset[int]:
        own = frozenset({receipt.attempt_id}) if receipt.attempt_id is not None else frozenset()
        earlier = self._which(lambda attempt: attempt.passed_at < receipt.asked_at)
        if receipt.claim in ("unsent", "ended", "lost", "refused") or (receipt.source == "provider" and own):
            return frozenset(pk for pk in own if pk is not None)
        if receipt.claim == "not_found":
            over = self._which(lambda attempt: attempt.settled_at < receipt.asked_at) & self._can_tell_of(receipt)
            named = self._returned(receipt.ref) if receipt.ref else self.all
            return over & named if self.authoritative else frozenset()
        if receipt.claim not in ("failed", "cancelled") or receipt.source == "person" or len(self.attempts) == 1:
            return earlier
        same = self._returned(receipt.ref) if receipt.ref else frozenset()
        if receipt.source != "read_back":
            return same
        return same | self._which(lambda attempt: self._over(attempt, receipt)) & self._can_tell_of(receipt)

    def _which(self, fits: Callable[[Attempt], bool]) -> frozenset[int]:
        return frozenset(attempt.id for attempt in self.attempts if fits(attempt))

    def _can_tell_of(self, look: Receipt) -> frozenset[int]:
        """Asked by a reference, a provider tells of one job: of those from before it was known, or that returned it."""
        if not self.by_ref:
            return self.all
        known = [r for r in self.heard if r.ref == look.ref and r.id <= look.id]
        since = min(r.seen_at for r in known)
        made = {r.attempt_id for r in known if r.source == "provider" and r.attempt_id is not None}
        may = [a.number for a in self.attempts if (a.id in made if made else a.passed_at < since)]
        return self._which(lambda attempt: attempt.number <= max(may, default=0))

    def _answers(self, attempt: int | None = None) -> list[Receipt]:
        said = FINAL_CLAIMS | SIGNS_OF_LIFE | {"refused"}
        found = [r for r in self.heard if r.source == "provider" and r.attempt_id is not None and r.claim in said]
        return [r for r in found if attempt in (None, r.attempt_id)]

    def _returned(self, ref: str) -> frozenset[int]:
        return frozenset(r.attempt_id for r in self._answers() if r.ref == ref and r.attempt_id is not None)

    def _over(self, attempt: Attempt, look: Receipt) -> bool:
        """Whether this look-up saw all that the attempt did, and none of its answers names another job."""
        answers = self._answers(attempt.id)
        if look.ref and any(r.ref and r.ref != look.ref for r in answers):
            return False
        return attempt.settled_at < look.asked_at or any(r.seen_at < look.asked_at for r in answers)

    def everything_about(self, receipts: Iterable[Receipt]) -> frozenset[int]:
        return frozenset[int]().union(*(self.about(receipt) for receipt in receipts))

    def reach(self, receipt: Receipt) -> frozenset[int]:
        return self.about(receipt) or self.all

    # What was said

    def undone_since(self, receipt: Receipt) -> bool:
        return self.undone_from is not None and receipt.seen_at >= self.undone_from

    def trusted(self, claims: Iterable[str]) -> list[Receipt]:
        wanted = set(claims)
        return [r for r in self.heard if r.source in TRUSTED and r.claim in wanted]

    def final_words(self) -> list[Receipt]:
        found = self.trusted(FINAL_CLAIMS)
        return [r for r in found if r.claim == "succeeded" or not self.undone_since(r)]

    def standing_words(self) -> list[Receipt]:
        words = self.final_words()
        looks = [r for r in words if r.source == "read_back"]
        return [r for r in words if not any(self._replaces(look, r) for look in looks)]

    def _replaces(self, look: Receipt, word: Receipt) -> bool:
        names_one = self.by_ref or (len(self.attempts) > 1 and look.ref)
        same = not names_one or not word.ref or word.ref == look.ref
        return word.seen_at < look.asked_at and same

    # The jobs that came back with a reference

    def refs(self) -> set[str]:
        """As the provider names them; hearsay names one where it names none."""
        own = {r.ref for r in self.trusted(FINAL_CLAIMS | SIGNS_OF_LIFE) if r.ref}
        return own or {r.ref for r in self.heard if r.ref and r.claim not in NAMES_NOTHING}

    def open_refs(self) -> set[str]:
        return {ref for ref in self.refs() if self.end_of(ref) is None}

    def end_of(self, ref: str) -> str | None:
        """The word that ends this job: the only one that stands, and not followed by a look that saw it running."""
        words = [r for r in self.final_words() if self._tells_of(r, ref)]
        looks = [r for r in words if r.source == "read_back"]
        words = [r for r in words if not any(self._replaces(look, r) for look in looks)]
        ends = {r.claim for r in words}
        if len(ends) != 1:
            return None
        seen = [r for r in self.trusted(SIGNS_OF_LIFE) if r.source == "read_back" and r.ref == ref]
        runs = any(r.asked_at > max(word.seen_at for word in words) for r in seen)
        return None if runs and ends != {"succeeded"} else ends.pop()

    def _tells_of(self, word: Receipt, ref: str) -> bool:
        returned = self._returned(ref)
        if word.ref or not returned:
            return word.ref == ref
        if word.source == "provider" and word.attempt_id is not None:
            return word.attempt_id in returned
        return word.claim != "succeeded" and returned <= self.about(word)

    # What it comes to

    def told(self) -> tuple[str, bool]:
        if not self.attempts:
            return ("not_sent" if self.refused_by_gate else "prepared"), False
        state, contradictory = self._by_evidence()
        if state in ("unknown", "accepted") and (settled := self._by_person()):
            return settled, contradictory
        return state, contradictory

    def _by_evidence(self) -> tuple[str, bool]:
        words = self.standing_words()
        none = [r for r in words if r.claim != "succeeded"]
        without = self.everything_about(none)
        done = [r for r in words if r.claim == "succeeded"]
        if done:
            possible = any(self.reach(r) - without for r in done)
            return ("succeeded", False) if possible else ("unknown", True)
        if without == self.all:
            return self._without_effect(none)
        return self._alive(without) or self._closed(words, without) or self._open(without), False

    def _without_effect(self, words: list[Receipt]) -> tuple[str, bool]:
        failed = self.everything_about(r for r in words if r.claim == "failed")
        cancelled = self.everything_about(r for r in words if r.claim == "cancelled")
        last = max(r.seen_at for r in words)
        runs = any(r.source == "read_back" and r.asked_at > last for r in self.trusted(SIGNS_OF_LIFE))
        if runs or failed & cancelled:
            return "unknown", True
        return ("cancelled" if cancelled else "failed"), False

    def _refused(self) -> frozenset[int]:
        return self.everything_about(r for r in self.heard if (r.claim, r.source) == ("refused", "provider"))

    def _absences(self) -> list[Receipt]:
        return [r for r in self.trusted(["not_found"]) if r.source == "read_back" and self.authoritative]

    def _hearsay(self, without: frozenset[int]) -> list[Receipt]:
        if without | self._refused() == self.all:
            return []
        return [r for r in self.heard if r.source == "intermediary" and r.claim in FINAL_CLAIMS]

    def _alive(self, without: frozenset[int]) -> str:
        """Accepted or unknown by a sign of life or by hearsay; empty where there is neither."""
        signs = []
        for receipt in self.heard:
            if receipt.claim in SIGNS_OF_LIFE and receipt.source in (*TRUSTED, "intermediary"):
                beaten = without | (self._refused() if receipt.source == "intermediary" else frozenset())
                signs += [receipt] if self.reach(receipt) - beaten else []
        hearsay = self._hearsay(without)
        if not signs:
            if self._proofs() | without == self.all:  # a denial adds nothing to proofs
                hearsay = [r for r in hearsay if r.claim == "succeeded"]
            return "unknown" if hearsay else ""
        last = max(r.seen_at for r in signs)
        forgotten = any(r.asked_at > last for r in self._absences())
        patience = max(self._patience(r) for r in signs if r.seen_at == last)
        over = forgotten or any(r.seen_at >= last for r in hearsay) or self.now >= last + patience
        return "unknown" if over else "accepted"

    def _patience(self, sign: Receipt) -> timedelta:
        return max(attempt.max_age for attempt in self.attempts if attempt.id in self.reach(sign))

    def _proofs(self) -> frozenset[int]:
        unsent = [r for r in self.heard if (r.claim, r.source) in PROVES_NOTHING_LEFT]
        absent = [r for r in self._absences() if not self.undone_since(r)]
        return self.everything_about([*unsent, *absent]) | self._refused()

    def _closed(self, words: list[Receipt], without: frozenset[int]) -> str:
        if self._proofs() | without != self.all:
            return ""
        told = {r.claim for r in words if self.about(r)}
        if self._refused() or "failed" in told:
            return "failed"
        if told:
            return "cancelled"
        return "unknown" if self.trusted(FINAL_CLAIMS | SIGNS_OF_LIFE) else "not_sent"

    def _open(self, without: frozenset[int]) -> str:
        lost = self.everything_about(r for r in self.heard if r.claim == "lost")
        silent = [a for a in self.attempts if a.id not in self._proofs() | without | lost]
        return "sending" if any(a.lease_until > self.now for a in silent) else "unknown"

    def _by_person(self) -> str:
        said = [r for r in self.heard if r.source == "person" and r.claim in FINAL_CLAIMS]
        if not said:
            return ""
        last = max(r.seen_at for r in said)
        claims = {r.claim for r in said if r.seen_at == last}
        covered = self.everything_about(r for r in said if r.seen_at == last)
        differs = [r for r in [*self.final_words(), *self.trusted(SIGNS_OF_LIFE)] if r.seen_at > last]
        if len(claims) > 1 or covered != self.all or any(r.claim not in claims for r in differs):
            return ""
        return claims.pop()


def _may_be_done(heard: list[Receipt]) -> bool:
    """Whether an undoing may have had its effect: it is not proven unsent or refused, or was seen all the same."""
    no = [("unsent", "sender"), ("unsent", "provider"), ("refused", "provider")]
    seen = any(r.source in TRUSTED and r.claim in SIGNS_OF_LIFE | {"succeeded"} for r in heard)
    return seen or not any((r.claim, r.source) in no for r in heard)
