"""The model's scenes, in which no promise may break, and its faults, each of which must break one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Promise(StrEnum):
    """What is asserted in the model, and what spin prints of it where it does not hold."""

    OVER = "nothing passes the gate, and nothing is admitted, for a run that is over"
    ONCE = "no effect is made twice"
    LISTED = "what was made is listed, and never denied"
    SHOWN = "every effect of a stopped task was listed by its stop"
    TRUE = "when nobody can do anything any more, the record says what is true"
    ENDS = "no fair execution goes on for ever"


PRINTED = {
    "!(ended[mine])": Promise.OVER,
    "(effects<=1)": Promise.ONCE,
    "!((made[": Promise.LISTED,
    "(listed[": Promise.LISTED,
    "(task_active||shown[": Promise.SHOWN,
    "((": Promise.TRUE,
    "non-progress cycle": Promise.ENDS,
}


@dataclass(frozen=True, slots=True)
class Scene:
    """One choice of what the model leaves open. `fair`: search for executions without an end, not for broken states."""

    name: str
    defines: tuple[str, ...]
    fair: bool = False
    breaks: Promise | None = None  # the promise that a fault breaks


SCENES = (
    Scene("a stop, with a look-up or cancel request that fails", ("NO_NEW_RUN", "ACTS=1", "TROUBLES=1")),
    Scene("a stop and a new run, in any order", ("ACTS=2", "TROUBLES=0")),
    Scene("a provider that forgets keys", ("KEY_LIFE", "TROUBLES=0")),
    Scene("a provider without keys, look-ups and cancels", ("BLIND",)),
    Scene("endless executions, without a stop", ("ACTS=0", "TROUBLES=0"), fair=True),
)

# Millions of states more, for `make model`.
LONG_SCENES = (
    Scene("a stop, a new run and a request that fails, in any order", ("ACTS=2", "TROUBLES=1")),
    Scene("a provider that forgets keys, and a request that fails", ("KEY_LIFE", "TROUBLES=1")),
    Scene("three senders, and a provider without keys", ("NA=3", "BLIND")),
    Scene("endless executions, with a stop or a new run", ("ACTS=1", "TROUBLES=0"), fair=True),
)

SMALL = ("ACTS=1", "TROUBLES=0")
FAULTS = (
    Scene("the gate looks, and writes later, without the lock", ("NO_LOCK", *SMALL), breaks=Promise.OVER),
    Scene("the gate does not test the run's number", ("NO_RUN_NUMBER", *SMALL), breaks=Promise.OVER),
    Scene("no send-before", ("NO_SEND_BEFORE", *SMALL), breaks=Promise.LISTED),
    Scene("a stall between send-before and write", ("STALL_AFTER_CHECK", *SMALL), breaks=Promise.LISTED),
    Scene("not found is believed before the settling time is over", ("NO_SETTLING", *SMALL), breaks=Promise.LISTED),
    Scene("an acknowledged cancel request counts as cancelled", ("ACK_IS_FINAL", *SMALL), breaks=Promise.LISTED),
    Scene("the gate sends again to the very end of a key's life", ("KEY_LIFE", "TO_THE_END"), breaks=Promise.ONCE),
    Scene("an unknown outcome is sent again without a key", ("BLIND", "BLIND_RESEND"), breaks=Promise.ONCE),
    Scene("the stop does not list what has left", ("NO_LISTING", *SMALL), breaks=Promise.SHOWN),
    Scene("nobody looks up", ("NO_LOOK_UP", *SMALL), breaks=Promise.TRUE),
    Scene("the provider never ends its work", ("ENDLESS", "ACTS=0", "TROUBLES=0"), fair=True, breaks=Promise.ENDS),
)
