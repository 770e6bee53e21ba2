"""The operators' desk: all is read there, tasks are stopped, dispatch is frozen and lifted; evidence decides states."""

from agentstop.admin import facts, freeze, operation, task, token

__all__ = ["facts", "freeze", "operation", "task", "token"]
