"""What an HTTP reply says about an operation: pure functions from replies to answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from agentstop.providers.base import Answer, CancelReply, LookUp
from agentstop.providers.http_action import HttpAction
from agentstop.providers.http_exchange import NoReply, Reply
from agentstop.states import FINAL_CLAIMS, Claim, Source

DONE = frozenset({200, 201, 203, 204, 205})
UNCLEAR = frozenset({408, 409, 425, 429})  # 4xx that do not say that nothing happened
LONGEST_REF = 2000
LONGEST_WAIT = 7 * 24 * 3600.0


def submitted(action: HttpAction, reply: Reply | NoReply) -> Answer:
    """What the reply to a submit says; all that proves nothing is lost."""
    if isinstance(reply, NoReply):
        return Answer(reply.claim, Source.SENDER, body=reply.why)
    if reply.status in DONE:
        return _answer(action, reply, _word(action, reply) or _by_status(action, reply))
    if reply.status == 202:
        word = _word(action, reply)
        return _answer(action, reply, word if word in FINAL_CLAIMS else Claim.ACCEPTED)
    refused = 400 <= reply.status < 500 and reply.status not in UNCLEAR
    return Answer(Claim.REFUSED if refused else Claim.LOST, body=_told(reply), retry_after=_retry_after(reply))


def looked_up(action: HttpAction, reply: Reply | NoReply) -> Answer | None:
    """What the reply to a look-up says about the operation; None where it says nothing."""
    if isinstance(reply, NoReply):
        return None
    if action.capability.look_up is LookUp.SEARCH:
        return _searched(action, reply)
    return _found(action, reply)


def _searched(action: HttpAction, reply: Reply) -> Answer | None:
    """A search tells by an empty list that it finds nothing, and by a 404 nothing at all.

    Of several hits nobody knows which is the effect of this operation: no state is read from any.
    """
    found = _pick(reply.data, action.found_field) if action.found_field else reply.data
    if reply.status not in DONE or not isinstance(found, list) or len(found) > 1:
        return None
    if not found:
        known = action.capability.authoritative
        return Answer(Claim.NOT_FOUND, Source.READ_BACK, body=reply.text, authoritative=known)
    return _found(action, replace(reply, data=found[0]))


def _found(action: HttpAction, reply: Reply) -> Answer | None:
    if reply.status == 404:
        known = action.capability.authoritative
        return Answer(Claim.NOT_FOUND, Source.READ_BACK, body=_told(reply), authoritative=known)
    if reply.status == 410:
        # Gone says that it was there once: never proof that nothing happened.
        return Answer(Claim.NOT_FOUND, Source.READ_BACK, body=_told(reply), authoritative=False)
    claim = _word(action, reply)
    if claim is None and reply.status == 202:
        claim = Claim.RUNNING
    if claim is None and reply.status in DONE and not action.state_field:
        claim = Claim.SUCCEEDED
    if claim is None or not (reply.status in DONE or reply.status == 202):
        return None
    return _answer(action, reply, claim, source=Source.READ_BACK)


def cancelled(action: HttpAction, reply: Reply | NoReply) -> CancelReply:
    """What the reply to a cancel request says about the request and, where it holds a state, about the effect."""
    if isinstance(reply, NoReply):
        return CancelReply(reply.claim, body=reply.why)
    status = reply.status
    word = _word(action, reply)
    answer = _answer(action, reply, word) if word is not None else None
    if status in DONE or status == 202:
        # Where an acknowledgement is proof, one that cannot be read is none: it might say that it was too late.
        proof = action.capability.ack_is_final
        taken = Claim.LOST if proof and _hides_its_state(action, reply) else Claim.CANCELLED
        return CancelReply(taken, body=reply.text, answer=answer)
    if 400 <= status < 500 and (status == 409 or status not in UNCLEAR):
        return CancelReply(Claim.REFUSED, body=_told(reply), answer=answer)
    if status >= 500 or status in UNCLEAR:
        return CancelReply(Claim.FAILED, body=_told(reply))
    return CancelReply(Claim.LOST, body=_told(reply))


def origin(url: httpx.URL) -> tuple[str, str, int | None]:
    """Scheme, host and port: what must be equal before our headers may go there."""
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}.get(url.scheme)


def _answer(action: HttpAction, reply: Reply, claim: Claim, *, source: Source = Source.PROVIDER) -> Answer:
    result = reply.data if reply.data is not None else (reply.text or None)
    if action.result_field and reply.data is not None:
        result = _pick(reply.data, action.result_field)
    return Answer(
        claim,
        source,
        ref=_ref(action, reply),
        body=reply.text,
        result=result,
        retry_after=_retry_after(reply),
        at=_at(_pick(reply.data, action.at_field)),
        progress=_progress(_pick(reply.data, action.progress_field)),
        cut=reply.cut,
        unread=reply.unread,
    )


def _by_status(action: HttpAction, reply: Reply) -> Claim:
    """A 2xx without a word for the state: done; but no more than taken where that word may be in what is unreadable."""
    return Claim.ACCEPTED if _hides_its_state(action, reply) else Claim.SUCCEEDED


def _hides_its_state(action: HttpAction, reply: Reply) -> bool:
    return reply.unread and bool(action.state_field)


def _told(reply: Reply) -> str:
    return f"HTTP {reply.status}: {reply.text}" if reply.text else f"HTTP {reply.status}"


def _word(action: HttpAction, reply: Reply) -> Claim | None:
    word = _pick(reply.data, action.state_field)
    return action.states.get(word.lower()) if isinstance(word, str) else None


def _pick(data: Any, path: str) -> Any:
    if not path:
        return None
    for name in path.split("."):
        data = data.get(name) if isinstance(data, Mapping) else None
    return data


def _ref(action: HttpAction, reply: Reply) -> str:
    """The reference, the same text whichever reply told it; empty where there is none that can be kept."""
    told = _pick(reply.data, action.ref_field)
    named = isinstance(told, str | int) and not isinstance(told, bool)
    ref = str(told) if named else _location(reply)
    return ref if len(ref) <= LONGEST_REF else ""


def _location(reply: Reply) -> str:
    told = reply.headers.get("location") or reply.headers.get("content-location")
    if not told:
        return ""
    try:
        url = reply.url.join(told).copy_with(fragment=None, userinfo=b"")
    except (httpx.InvalidURL, ValueError):
        return ""
    return url.raw_path.decode("ascii") if origin(url) == origin(reply.url) else str(url)


def _retry_after(reply: Reply) -> float | None:
    told = reply.headers.get("retry-after", "").strip()
    if not told:
        return None
    if told.isascii() and told.isdigit():
        return min(float(told[:9]), LONGEST_WAIT)
    until, now = _http_date(told), _http_date(reply.headers.get("date", ""))
    if until is None:
        return None
    # Measured on the provider's own clock where it tells it, since ours may differ.
    return min(max((until - (now or datetime.now(UTC))).total_seconds(), 0.0), LONGEST_WAIT)


def _http_date(text: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)


def _at(told: Any) -> datetime | None:
    try:
        at = datetime.fromisoformat(told)
    except (TypeError, ValueError):
        return None
    return at if at.tzinfo else None  # without an offset it names no moment


def _progress(told: Any) -> float | None:
    if isinstance(told, bool) or not isinstance(told, int | float):
        return None
    return min(max(float(told), 0.0), 1.0)
