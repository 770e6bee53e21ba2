"""All settings, their defaults, and nothing else. Read when used, so that `override_settings` works."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings

CONNECTORS: Mapping[str, Mapping[str, Any]]  # {"mail": {"PROVIDER": "dotted.path", "OPTIONS": {}}}
DEADLINE: float  # seconds from the gate to the end of one send; the default of `run.call(deadline=)`
LEASE: float  # seconds without a heartbeat of its process after which an attempt may no longer act
LEASE_MARGIN: float  # seconds more after which it counts as not heard of
SILENCE: float  # seconds without a sign of life after which the process of a run counts as not heard of
CANCEL_DEADLINE: float  # seconds for which a cancel request is tried
FOLLOW_UP_BASE: float  # seconds until the first look-up of an operation that nobody waits for
FOLLOW_UP_CAP: float  # seconds between look-ups at the most
RESULT_CAP: int  # bytes of a result that are kept and admitted
SUMMARY_CAP: int  # characters of a request that are kept for people
REDACT: Sequence[str]  # names whose values are never stored, of arguments and in answers (whole words, any case)
MAY: str  # dotted path of the rule that says who may do what; see `permissions`
RUNNER: str  # dotted path of a function that starts the agent of a run that a person has begun; see `starting`
CELERY_APP: str  # dotted path of the Celery application whose workers and beat do the follow-up work
TAKES_INPUT: bool  # the agents of this site take what people type: the panel has a field for it
DRAIN: float  # seconds that an ending process waits for sends under way
POLL: float  # seconds between two looks at an SQLite file for changes
SWEEP: float  # seconds between two looks at everything, which make good a lost wake

DEFAULTS: dict[str, Any] = {
    "CONNECTORS": {},
    "DEADLINE": 30.0,
    "LEASE": 15.0,
    "LEASE_MARGIN": 5.0,
    "SILENCE": 60.0,
    "CANCEL_DEADLINE": 3600.0,
    "FOLLOW_UP_BASE": 2.0,
    "FOLLOW_UP_CAP": 300.0,
    "RESULT_CAP": 1_000_000,
    "SUMMARY_CAP": 500,
    "REDACT": (
        "password",
        "passwd",
        "secret",
        "token",
        "authorization",
        "api_key",
        "apikey",
        "credential",
        "credentials",
    ),
    "MAY": "agentstop.permissions.owner_or_permission",
    "RUNNER": "",
    "CELERY_APP": "",
    "TAKES_INPUT": False,
    "DRAIN": 5.0,
    "POLL": 0.05,
    "SWEEP": 5.0,
}


def __getattr__(name: str) -> Any:
    if name not in DEFAULTS:
        raise AttributeError(f"agentstop has no setting {name!r}")
    return getattr(settings, f"AGENTSTOP_{name}", DEFAULTS[name])
