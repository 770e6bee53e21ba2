"""What is told of a freeze: the same for pages, lists, the websocket and the admin, in the active language."""

from __future__ import annotations

from agentstop.models import Freeze
from agentstop.reports.remedies import name_of
from agentstop.words import frozen_words
from agentstop.words.frozen_words import Held, HeldTold


def tell(freeze: Freeze) -> HeldTold:
    """What is read of a freeze that holds something, or is about to."""
    return frozen_words.read(
        Held(
            id=freeze.pk,
            connector=freeze.connector,
            action=freeze.action,
            owner=owner(freeze),
            by=by(freeze),
            at=freeze.at,
            in_force_at=freeze.in_force_at,
            until=freeze.until,
            reason=freeze.reason,
        )
    )


def what(freeze: Freeze) -> str:
    """What it holds."""
    return frozen_words.what(freeze.connector, freeze.action, owner(freeze))


def by(freeze: Freeze) -> str:
    """The person or the policy that decided it."""
    return name_of(freeze.by) or freeze.policy


def owner(freeze: Freeze) -> str | None:
    """Whose tasks alone it is about: empty where their account is gone; None where it is about everybody's."""
    return name_of(freeze.owner) if freeze.of_owner else None
