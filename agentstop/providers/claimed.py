"""A connector whose effects are made by code of your own: it claims what is known of them, and sends nothing."""

from __future__ import annotations

from collections.abc import Mapping

from django.core.exceptions import ImproperlyConfigured

from agentstop.providers.base import Capability, Provider


class ClaimedProvider(Provider):
    """The capability records of actions that `send=`, `dispatch` or a gated client sends.

    `others`: of every action that is not among them; None refuses those. To look up and cancel by the provider's own
    client, subclass it and write `look_up` and `cancel`.
    """

    def __init__(self, *, actions: Mapping[str, Capability], others: Capability | None = None) -> None:
        for name, record in (*actions.items(), *([("others", others)] if others is not None else [])):
            if not isinstance(record, Capability):
                raise ImproperlyConfigured(f"ClaimedProvider {name!r} is {record!r}: make it a Capability(...).")
            for problem in record.problems():
                raise ImproperlyConfigured(f"ClaimedProvider {name!r} {problem}.")
        self.actions, self.others = dict(actions), others

    def known_actions(self) -> tuple[str, ...]:
        return tuple(sorted(self.actions))

    def capability(self, action: str) -> Capability:
        """What was claimed of it."""
        found = self.actions.get(action, self.others)
        if found is None:
            raise LookupError(f"no action {action!r}: use one of {', '.join(sorted(self.actions))}, or pass others=")
        return found
