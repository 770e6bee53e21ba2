"""The end of what a process of agentstop's does beside its caller."""

from __future__ import annotations

from agentstop import alive, sending, wake


def end() -> None:
    """Return when nothing is sent, said or listened to any more; what needs it again begins it again."""
    sending.close()
    alive.close()
    wake.close()
