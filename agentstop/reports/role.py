"""What one reader may do: decided once for each look, and a part of what is drawn for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentstop import permissions
from agentstop.models import Task


@dataclass(frozen=True, slots=True)
class Role:
    """What the reader may do with a task that they may see, and with its operations."""

    may_stop: bool
    may_undo: bool = False
    may_settle: bool = False
    may_type: bool = False
    may_answer: bool = False
    may_pause: bool = False
    sees_family: bool = True  # all of the relatives that are named

    @classmethod
    def of(cls, user: Any, task: Task, relatives: Sequence[Task] = ()) -> Role:
        def may(permission: str) -> bool:
            return permissions.may(user, permission, task)

        return cls(
            may_stop=may("stop_task"),
            may_undo=may("compensate_operation"),
            may_settle=may("settle_operation"),
            may_type=may("start_run"),
            may_answer=may("answer_question"),
            may_pause=may("pause_task"),
            sees_family=all(permissions.may(user, "view_task", relative) for relative in relatives),
        )

    @property
    def may_start(self) -> bool:
        """Begin a new run; who may do that may type for it as well."""
        return self.may_type
