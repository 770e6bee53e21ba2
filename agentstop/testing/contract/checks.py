"""The contract with a provider, as checks that any provider can be put to: ours, a user's, a test's bad one.

What a provider answers is compared with a ledger that knows what was really done. A check that needs what the subject
does not offer says so (`NotTried`), and is never counted as passed.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence

from agentstop.exceptions import PassExpired
from agentstop.providers.base import Answer, Capability, Context, LookUp, SubmitIdempotency
from agentstop.states import FINAL_CLAIMS, SIGNS_OF_LIFE, Claim, Source
from agentstop.testing.contract.trial import GUARD, Broken, Going, NotTried, Subject, Trial, needs, require, within

SHORT = 0.5  # seconds of a deadline that is meant to be overrun
TRIES = 100  # look-ups until a lag is over


async def the_record_is_one_and_agrees_with_itself(trial: Trial) -> None:
    require(isinstance(trial.capability, Capability), f"capability() answered {trial.capability!r:.100}")
    problems = list(trial.capability.problems())
    require(not problems, f"its capability record {'; '.join(problems)}")


async def what_undoes_it_is_an_action_of_it(trial: Trial) -> None:
    undoing = trial.capability.compensation
    if undoing is None:
        raise NotTried("its record says that it cannot be undone here")
    try:
        trial.provider.capability(undoing.action)
    except LookupError as error:
        raise Broken(f"its record says that {undoing.action} undoes it, which is no action of it: {error}") from error


async def an_unknown_action_is_a_lookup_error(trial: Trial) -> None:
    try:
        trial.provider.capability("no.such.action")
    except LookupError:
        return
    raise Broken("capability() of an action that there is not raised no LookupError")


async def a_submit_is_told_as_what_it_was(trial: Trial) -> None:
    answer = await trial.submit()
    effects = await trial.effects()
    good = answer.claim in SIGNS_OF_LIFE or answer.claim is Claim.SUCCEEDED
    require(good, f"a request that is to be done was answered {answer.claim}: {answer.body:.200}")
    require(effects == 1, f"answered {answer.claim}, and the ledger has {effects} effects")


async def the_pass_is_asked_before_the_write(trial: Trial) -> None:
    await trial.submit()
    require(trial.asked > 0, "sent without calling context.before_write()")


async def a_void_pass_sends_nothing(trial: Trial) -> None:
    try:
        await within(trial.provider.submit(trial.submission(), Context(_void, GUARD)))
    except PassExpired:
        pass
    except Exception as error:
        raise Broken(f"before_write() raised PassExpired, and what came out is {error!r:.200}") from error
    else:
        raise Broken("before_write() raised PassExpired, and submit() did not let it through")
    require(await trial.effects() == 0, "sent although before_write() had raised PassExpired")


async def a_second_submit_does_what_the_record_says(trial: Trial) -> None:
    if trial.capability.submit is SubmitIdempotency.NONE:
        raise NotTried("its record claims nothing about a second submit")
    await trial.submit()
    await trial.effects()
    await trial.submit()
    effects = await trial.effects()
    require(effects == 1, f"its record says submit={trial.capability.submit}, and the ledger has {effects} effects")


async def a_lost_answer_is_told_as_lost(trial: Trial) -> None:
    answer = await trial.submit(needs(trial.subject.losing, "losing"))
    require(await trial.effects() == 1, "the ledger does not have what `losing` is to make")
    sure = answer.claim in SIGNS_OF_LIFE or answer.claim is Claim.SUCCEEDED
    require(answer.claim is Claim.LOST or sure, f"the answer was lost after the effect, and it said {answer.claim}")


async def a_refused_request_is_told_as_one_without_effect(trial: Trial) -> None:
    answer = await trial.submit(needs(trial.subject.refused, "refused"))
    require(await trial.effects() == 0, "the ledger has an effect of what `refused` is to turn down")
    none = (Claim.REFUSED, Claim.FAILED, Claim.LOST)
    require(answer.claim in none, f"turned down, and it said {answer.claim}")


async def without_a_connection_nothing_is_claimed(trial: Trial) -> None:
    if trial.subject.unreachable is None:
        raise NotTried("the subject offers no provider that cannot be connected to: unreachable")
    alone = Trial(trial.subject, trial.subject.unreachable())
    answer = await alone.submit()
    await alone.provider.aclose()
    require(answer.claim in (Claim.UNSENT, Claim.LOST), f"nothing was connected, and it said {answer.claim}")
    require(answer.claim is not Claim.UNSENT or answer.source is Source.SENDER, "unsent is the sender's own word")


async def a_submit_ends_at_its_deadline(trial: Trial) -> None:
    sending = asyncio.ensure_future(trial.submit(needs(trial.subject.hanging, "hanging"), deadline=SHORT))
    done, _ = await asyncio.wait({sending}, timeout=2 * SHORT)
    if not done:  # the product tells it to end
        sending.cancel()
        done, _ = await asyncio.wait({sending}, timeout=GUARD)
    require(bool(done), "did not end at its deadline, nor when it was told to")
    if not sending.cancelled():
        claim = sending.result().claim
        unsent = claim is Claim.UNSENT and not trial.asked  # the time was over before there was a connection
        require(claim is Claim.LOST or claim in SIGNS_OF_LIFE or unsent, f"it had no answer, and said {claim}")


async def what_was_done_is_found(trial: Trial) -> None:
    how = _asked(trial)
    answer = await trial.submit()
    require(await trial.effects() == 1, "the ledger does not have what was submitted")
    if how is LookUp.BY_REF:
        require(bool(answer.ref), "is looked up by reference, and gave none in its answer")
    found = await _shown(trial, answer.ref)
    require(found.claim is Claim.SUCCEEDED, f"done by the ledger, and looked up it is {found.claim}")


async def a_look_up_has_no_effect_and_finds_nothing_where_nothing_is(trial: Trial) -> None:
    how = _asked(trial)
    if how is LookUp.BY_REF:
        raise NotTried("there is no reference of what was never sent")
    found = await trial.look_up()
    require(await trial.effects() == 0, "looking up made an effect")
    if found is not None:
        absent = found.claim is Claim.NOT_FOUND
        require(absent, f"nothing was ever sent, and looked up it is {found.claim}")
    require(found is not None or not trial.capability.authoritative, "is authoritative, and does not say 'not found'")


async def a_void_pass_sends_no_cancel(trial: Trial) -> None:
    going = await trial.lasting()
    try:
        await within(trial.provider.cancel(trial.submission(ref=going.ref, stored=True), Context(_void, GUARD)))
    except PassExpired:
        return
    finally:
        going.sending.cancel()
    raise Broken("before_write() raised PassExpired, and cancel() did not let it through")


async def a_cancel_is_told_as_what_it_was(trial: Trial) -> None:
    going = await trial.lasting()
    asked = trial.asked
    reply = await trial.cancel(going.ref)
    require(trial.asked > asked or reply.claim is Claim.UNSENT, "cancelled without calling context.before_write()")
    await trial.effects()
    answers = [await _heard(going), reply.answer]
    over = any(answer is not None and answer.claim is Claim.CANCELLED for answer in answers if _providers_own(answer))
    over = over or (reply.claim is Claim.CANCELLED and trial.capability.ack_is_final)
    effects = await trial.effects()
    require(not (over and effects), f"said that it is cancelled, and the ledger has {effects} effects")


async def a_cancel_leaves_others_on_the_connection_alone(trial: Trial) -> None:
    going = await trial.lasting()
    other = str(uuid.uuid4())
    beside = asyncio.ensure_future(trial.submit(key=other))
    await trial.cancel(going.ref)
    await asyncio.wait({beside})
    going.sending.cancel()
    told = "it was cancelled" if beside.cancelled() else f"{beside.result().claim} {beside.result().body:.200}"
    require(await trial.effects(other) == 1, f"another operation was lost by a cancel: {told}")


async def closing_twice_is_harmless(trial: Trial) -> None:
    await trial.submit()
    await trial.provider.aclose()
    await trial.provider.aclose()


def _void() -> None:
    raise PassExpired("The pass of this check is void.")


async def _heard(going: Going) -> Answer | None:
    """What its send has answered by now. Asked to cancel, it need not answer: its caller leaves, as after a stop."""
    done, _ = await asyncio.wait({going.sending}, timeout=SHORT)
    if done:
        return going.sending.result()
    going.sending.cancel()
    return None


def _asked(trial: Trial) -> LookUp:
    how = trial.capability.look_up
    if how is LookUp.NONE:
        raise NotTried("its record says that it cannot be asked")
    return how


async def _shown(trial: Trial, ref: str) -> Answer:
    """What a look-up finds, as soon as it finds it; it may lag by `settling`, and for a moment while it works."""
    pause = max(0.05, trial.capability.settling.total_seconds() * 2 / TRIES)
    found = None
    for _ in range(TRIES):
        found = await trial.look_up(ref=ref)
        if found is not None and found.claim in FINAL_CLAIMS:
            break
        await asyncio.sleep(pause)
    if found is None:
        raise Broken("what was done could not be looked up: no answer")
    return found


def _providers_own(answer: Answer | None) -> bool:
    """Not an intermediary's word, which the product does not take for the provider's."""
    return answer is not None and answer.source in (Source.PROVIDER, Source.READ_BACK)


Check = Callable[[Trial], Awaitable[None]]
CHECKS: Sequence[Check] = (
    the_record_is_one_and_agrees_with_itself,
    what_undoes_it_is_an_action_of_it,
    an_unknown_action_is_a_lookup_error,
    a_submit_is_told_as_what_it_was,
    the_pass_is_asked_before_the_write,
    a_void_pass_sends_nothing,
    a_second_submit_does_what_the_record_says,
    a_lost_answer_is_told_as_lost,
    a_refused_request_is_told_as_one_without_effect,
    without_a_connection_nothing_is_claimed,
    a_submit_ends_at_its_deadline,
    what_was_done_is_found,
    a_look_up_has_no_effect_and_finds_nothing_where_nothing_is,
    a_void_pass_sends_no_cancel,
    a_cancel_is_told_as_what_it_was,
    a_cancel_leaves_others_on_the_connection_alone,
    closing_twice_is_harmless,
)


async def put_to(check: Check, subject: Subject) -> None:
    """One check of a new provider; raises Broken or NotTried."""
    trial = Trial(subject, subject.provider())
    try:
        await check(trial)
    finally:
        await trial.provider.aclose()
