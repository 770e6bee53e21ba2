"""The commands about what senders, the network, the provider and people do to operations."""

from __future__ import annotations

from agentstop import asking, reconcile, settle
from agentstop.compensate import compensate as undo
from agentstop.models import Operation as OperationRow
from agentstop.providers.base import Answer, LookUp
from agentstop.settle import Admission, Heard
from agentstop.settlement import settle_by_hand
from agentstop.states import FINAL_CLAIMS, Claim, Source
from tests.conftest import HANG_GUARD
from tests.soak.driver import Episode, Held, Look, Step
from tests.soak.mirror import Operation, Receipt
from tests.soak.model import Expected, expected
from tests.soak.moves import move, name
from tests.soak.world import CONNECTOR, PROFILES, Letter, hours

# Senders


@move(6)
def write(episode: Episode, a: int, b: int, c: int) -> Step | None:
    """A sender, who may have stalled, makes the last check and writes. Its bytes are then in the air."""
    waiting = [held for held in episode.held if not held.written]
    if not waiting:
        return None
    held = waiting[-1 - a % len(waiting)]
    passed, left = held.passed, []

    def act() -> str:
        passed.check()
        left.append(held)
        return "written"

    def after() -> None:
        for each in left:
            episode.send(each, arrives=b % 4 != 0)

    expect = expected("written" if episode.writable(held) else "PassExpired")
    return Step(f"attempt {passed.attempt} of {passed.operation} writes", act, expect, after)


def record(episode: Episode, words: str, operation: int, heard: Heard, run: int | None, error: str = "") -> Step:
    """Hand in one receipt, wishing its result for a run or not."""

    def act() -> str:
        wished = Admission(run, error) if run is not None else None
        return str(settle.record(operation, [heard], admission=wished).outcome)

    expect = episode.model.record(operation, [f"{heard.claim} {heard.source}"], run, error)
    return Step(words, act, expect)


def give_up(episode: Episode, held: Held, claim: Claim) -> Step | None:
    passed = held.passed
    attempt = episode.attempt(passed.operation, passed.attempt)
    episode.held.remove(held)
    if attempt is None:
        return None
    heard = Heard(claim, Source.SENDER, attempt.passed_at, passed.attempt_id)
    words = f"attempt {passed.attempt} of {passed.operation} is recorded as {claim}"
    return record(episode, words, passed.operation, heard, held.run)


@move(2)
def unsent(episode: Episode, a: int, b: int, c: int) -> Step | None:
    """No connection was made."""
    waiting = [held for held in episode.held if not held.written]
    return give_up(episode, waiting[a % len(waiting)], Claim.UNSENT) if waiting else None


@move(4)
def lose(episode: Episode, a: int, b: int, c: int) -> Step | None:
    """The sender heard nothing, and says so. What it has written may still be in the air."""
    return give_up(episode, episode.held[a % len(episode.held)], Claim.LOST) if episode.held else None


@move(1)
def crash(episode: Episode, a: int, b: int, c: int) -> Step | None:
    """The sender's process is gone, and nothing is recorded."""
    if episode.held:
        held = episode.held.pop(a % len(episode.held))
        episode.log.append(f"attempt {held.passed.attempt} of {held.passed.operation} dies")
    return None


# The network and the provider


@move(4)
def arrive(episode: Episode, a: int, b: int, c: int) -> Step | None:
    """What was held up on the way arrives."""
    flights = episode.world.flights
    sent = flights[a % len(flights)] if flights else None
    if sent is None or episode.settled_at(sent) is None:
        return None
    episode.arrive(sent)
    return None


@move(9)
def go_on(episode: Episode, a: int, b: int, c: int) -> Step | None:
    """A job starts or ends at the provider, which says nothing about it."""
    job = episode.pick_job(a)
    if job is None or job.state != "running":
        return None
    how = (None, Claim.SUCCEEDED, Claim.SUCCEEDED, Claim.SUCCEEDED, Claim.FAILED, Claim.CANCELLED)[b % 6]
    if how is None:
        job.started = True
        return None
    episode.world.end(job, how)
    episode.log.append(f"{job.ref} ends as {how}")
    return None


@move(1)
def forget(episode: Episode, a: int, b: int, c: int) -> Step | None:
    """The provider forgets what has ended: one that is asked for proof only what it has told."""
    job = episode.pick_job(a)
    if job is None or job.state == "running":
        return None
    told = any(r.ref == job.ref for r in episode.mirror.all(Receipt))
    if told or not PROFILES[job.sent.action].authoritative:
        job.forgotten = True
        episode.log.append(f"{job.ref} is forgotten")
    return None


@move(4)
def push(episode: Episode, a: int, b: int, c: int) -> Step | None:
    """The provider says by itself how it goes; the words are on their way."""
    job = episode.pick_job(a)
    if job is not None:
        letter = episode.world.push(job)
        episode.log.append(f"{job.ref} tells of itself: {letter.claim}")
    return None


@move(14, shared=True)
def deliver(episode: Episode, a: int, b: int, c: int) -> Step | None:
    """Some words of the provider are heard: in any order, late, and now and then twice."""
    letters = episode.world.letters
    if not letters:
        return None
    index = len(letters) - 1 if a % 2 else a // 2 % len(letters)
    letter = letters[index] if b % 5 == 0 else letters.pop(index)
    attempt = episode.attempt(letter.sent.operation, letter.sent.number)
    if attempt is None:
        return None
    episode.held = [held for held in episode.held if not (letter.answers and held.passed.attempt_id == attempt.id)]
    asked = attempt.passed_at if letter.answers else episode.clock.now()
    heard = Heard(letter.claim, Source.PROVIDER, asked, attempt.id if letter.answers else None, ref=letter.ref)
    wished = attempt.run if letter.answers and letter.claim in FINAL_CLAIMS else None
    words = _words(letter)
    return record(episode, words, letter.sent.operation, heard, wished, "of no use" if c % 16 == 0 else "")


def _words(letter: Letter) -> str:
    what = f"the answer to attempt {letter.sent.number}" if letter.answers else "a word"
    return f"{what} of {letter.sent.operation} is heard: {letter.claim} {letter.ref}"


@move(1, shared=True)
def rumour(episode: Episode, a: int, b: int, c: int) -> Step | None:
    """An intermediary says something, which need not be true."""
    operation = episode.pick_operation(a)
    if operation is None or not operation.attempts:
        return None
    claim = (Claim.CANCELLED, Claim.RUNNING, Claim.SUCCEEDED, Claim.FAILED)[b % 4]
    heard = Heard(claim, Source.INTERMEDIARY, episode.clock.now())
    return record(episode, f"it is rumoured that {operation.id} is {claim}", operation.id, heard, None)


# Asking


@move(5)
def look(episode: Episode, a: int, b: int, c: int) -> Step | None:
    """Somebody asks the provider; the answer is under way while other things happen."""
    operation = episode.pick_operation(a)
    if operation is None:
        return None
    how = PROFILES[operation.action].look_up
    refs = sorted({receipt.ref for receipt in episode.mirror.of(Receipt, operation.id)} - {""})
    if how is LookUp.NONE or (how is LookUp.BY_REF and not refs):
        return None
    ref = refs[c % len(refs)] if refs else ""
    asking_now = Look(operation.id, ref, episode.clock.virtual())
    if b % 2:
        asking_now.found = episode.world.look_up(operation.action, operation.idempotency_key, ref)
    episode.looks.append(asking_now)
    episode.log.append(f"{operation.id} is looked up: {asking_now.found}")
    return None


@move(6, shared=True)
def find(episode: Episode, a: int, b: int, c: int) -> Step | None:
    """The answer to such a look-up comes."""
    if not episode.looks:
        return None
    looked = episode.looks.pop(a % len(episode.looks))
    operation = episode.mirror.get(Operation, looked.operation)
    if looked.found is None:
        looked.found = episode.world.look_up(operation.action, operation.idempotency_key, looked.ref)
    claim, ref = looked.found
    asked = looked.asked - episode.clock.travelled
    answer = Answer(claim, Source.READ_BACK, ref=ref)
    heard = asking.read_back(answer, asked, CONNECTOR, operation.action, looked.ref)
    submits = episode.mirror.submits(operation.id)
    wished = submits[-1].run if submits and claim in FINAL_CLAIMS and b % 2 else None
    words = f"the look-up of {operation.id} is answered: {claim} {ref}"
    return record(episode, words, operation.id, heard, wished)


@move(2, shared=True)
def look_up_now(episode: Episode, a: int, b: int, c: int) -> Step | None:
    """A person wants to know."""
    operation, person = episode.pick_operation(a), episode.pick_person(b)
    if operation is None:
        return None

    def act() -> str:
        reconcile.look_up_now(operation.id, by=person.user)
        return "asked"

    denied = episode.model.denied(person, "view_task", operation.task_id, "look_up")
    return Step(f"{name(person)} asks about {operation.id}", act, denied)


@move(6, shared=True)
def work(episode: Episode, a: int, b: int, c: int) -> Step | None:
    """A worker does what is due: cancels and look-ups."""
    return Step("a worker works", lambda: str(reconcile.work(1 + a % 4)))


@move(1, shared=True)
def refold(episode: Episode, a: int, b: int, c: int) -> Step | None:
    """What time alone has changed is written down."""

    def act() -> str:
        settle.refold_due(list(OperationRow.objects.values_list("pk", flat=True)))
        return "folded"

    return Step("what is due is folded", act, expected("folded"))


# People


@move(5, shared=True)
def compensate(episode: Episode, a: int, b: int, c: int) -> Step | None:
    operation, person = episode.pick_operation(a, "succeeded"), episode.pick_person(b)
    if operation is None:
        return None

    def act() -> str:
        undo(operation.id, by=person.user).future.result(HANG_GUARD)
        return "undoes"

    refused = _undoing(episode, operation.id, b)
    return Step(f"{name(person)} has {operation.id} undone", act, refused)


def _undoing(episode: Episode, pk: int, b: int) -> Expected | None:
    """None where it is allowed: what the provider answers then is for the promises to judge."""
    person, model = episode.pick_person(b), episode.model
    operation = episode.mirror.get(Operation, pk)
    if denied := model.denied(person, "compensate_operation", operation.task_id, "compensate"):
        return denied
    word = model.compensate(operation, PROFILES[operation.action])
    noted = ["decision compensate noted"] if word == "Frozen" else []
    return None if word == "undoes" else expected(word, *noted)


@move(2)
def settle_it(episode: Episode, a: int, b: int, c: int) -> Step | None:
    """A person who has looked says what became of it; while something may still come nobody can."""
    operation, person = episode.pick_operation(a, "unknown", "accepted"), episode.pick_person(b)
    if operation is None:
        return None
    states = {job.state for job in episode.world.of_key(operation.idempotency_key)}
    sends = [held for held in episode.held if held.passed.operation == operation.id and episode.writable(held)]
    if "succeeded" in states:
        claim = Claim.SUCCEEDED
    elif "running" in states or sends or episode.world.coming(operation.id):
        return None
    else:
        claim = Claim.CANCELLED if "cancelled" in states else Claim.FAILED

    def act() -> str:
        settle_by_hand(operation.id, by=person.user, outcome=claim, reason="looked myself")
        return "settled"

    expect = episode.model.settle(operation, person, claim)
    return Step(f"{name(person)} settles {operation.id} as {claim}", act, expect)


@move(7)
def wait(episode: Episode, a: int, b: int, c: int) -> Step | None:
    """Time passes: an hour, some hours, a day."""
    episode.travel(hours((1, 1, 2, 3, 3, 3, 5, 16, 24)[a % 9]))
    return None
