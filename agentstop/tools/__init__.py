"""Any Python function as a tool: `@tool` puts each call of it through the gate, for the run at hand."""

from agentstop.tools.handle import current_operation
from agentstop.tools.wrapping import tool

__all__ = ["current_operation", "tool"]
