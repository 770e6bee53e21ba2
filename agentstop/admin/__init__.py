"""The operators' desk: everything is listed and read there, and tasks are stopped; evidence alone decides states."""

from agentstop.admin import facts, operation, task

__all__ = ["facts", "operation", "task"]
