"""The sandbox as a connector: what its actions are, and what is true of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from agentstop.providers.base import Cancel, Capability, Compensation, Extent, LookUp, SubmitIdempotency
from agentstop.providers.http import HttpAction

PROVIDER = "agentstop.providers.http.HttpProvider"
WITHDRAW = Compensation(
    "report.undo",
    consequences="Withdraws the report. That it was made stays on record, and so do copies that were taken.",
)
REMOVE = Compensation(
    "file.undo",
    consequences="Removes the file from the store. Whoever has fetched it before keeps their copy.",
)
TAKE_DOWN = Compensation(
    "notify.undo",
    extent=Extent.PARTIAL,
    consequences="Takes the message down. People have been notified already, and may have read it.",
)


def sandbox_connector(
    address: str,
    *,
    settling: timedelta = timedelta(seconds=2),
    called: Mapping[str, str] | None = None,
    provider: str = PROVIDER,
) -> dict[str, Any]:
    """An entry of `AGENTSTOP_CONNECTORS` for the sandbox at this address.

    `called`: actions of yours, by those of the sandbox that stand in for them, as `{"mail.send": "notify.post"}`.
    """
    options = sandbox_options(address, settling=settling)
    known = options["actions"]
    for name, stand_in in (called or {}).items():
        if stand_in not in known:
            raise ValueError(
                f"{name!r} is called {stand_in!r}, which is no action of the sandbox: use one of {', '.join(known)}."
            )
        options["actions"] = {**options["actions"], name: known[stand_in]}
    return {"PROVIDER": provider, "OPTIONS": options}


def sandbox_options(address: str, *, settling: timedelta = timedelta(seconds=2)) -> dict[str, Any]:
    """The options of `HttpProvider` for the sandbox at this address.

    A request shows in look-ups at once when it is accepted. Where a test holds one at `received` for longer than
    `settling`, that would not be true: such a test passes a longer one.
    """
    lasting = Capability(
        submit=SubmitIdempotency.KEY,
        key_life=timedelta(days=30),
        look_up=LookUp.BY_KEY,
        authoritative=True,
        settling=settling,
        max_age=timedelta(hours=1),
    )
    cancellable = replace(lasting, cancel=Cancel.BEST_EFFORT, cancel_needs_ref=True, compensation=WITHDRAW)
    report = HttpAction(
        "/reports",
        capability=cancellable,
        look_up_path="/operations/{key}",
        cancel_path="{ref}",
        result_field="result",
        at_field="at",
        progress_field="progress",
    )
    by_key = replace(report, capability=replace(cancellable, cancel_needs_ref=False), cancel_path="/operations/{key}")
    upload = replace(report, path="/uploads", capability=replace(lasting, compensation=REMOVE), cancel_path="")
    notice = replace(lasting, compensation=TAKE_DOWN)
    undo = replace(upload, path="/undos", capability=lasting)
    return {
        "base_url": address,
        "actions": {
            "report.create": report,
            "report.by_key": by_key,  # the same, and cancelled by its key, before its reference is known
            "file.upload": upload,
            "notify.post": replace(upload, path="/notifications", capability=notice),
            "report.undo": undo,
            "file.undo": undo,
            "notify.undo": undo,
            # The same without a key: sent twice it has two effects, and nobody can be asked.
            "notify.blind": replace(upload, path="/notifications", capability=Capability(), look_up_path=""),
        },
    }
