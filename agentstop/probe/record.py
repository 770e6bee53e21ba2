"""The capability record that a probe yields, ready to paste: what was seen of the tool, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

NOTHING = "# nothing is claimed"


@dataclass(slots=True)
class Learned:
    """What was shown; None: it was not."""

    revision: str = ""
    called: bool = False  # an undisturbed call succeeded
    noticed: bool | None = None  # a cancel
    went_on: bool | None = None  # the effect came after the connection was closed
    once: bool | None = None  # a second call with the same key had no second effect
    task: bool = False  # it can be called as a task, and looked up
    task_noticed: bool | None = None  # its cancel, and no effect came

    def as_settings(self, tool: str) -> str:
        """Options of the connector, as Python."""
        if not self.called and not self.task:
            return NOTHING
        lines = [f'"revision": "{self.revision}",', '"tools": {']
        told = [self._plain()] if self.called else []
        told += [self._as_task()] if self.task else []
        lines += [f'    "{tool}": {told[0]},', *(f"    # or: {other}," for other in told[1:])]
        return "\n".join([*lines, "},"])

    def _plain(self) -> str:
        claims = ["submit=SubmitIdempotency.KEY"] if self.once else []
        claims += ["disconnect=Disconnect.GOES_ON"] if self.went_on else []
        policy = f'cancel="{_policy(self.noticed)}"'
        if not claims:
            return f"McpTool({policy})"
        kept = ["cancel_needs_ref=False", "max_age=timedelta(seconds=60)"]  # as for every call that claims nothing
        return f"McpTool({policy}, capability=Capability({', '.join([*claims, *kept])}))"

    def _as_task(self) -> str:
        """That it can be looked up by its reference follows from `task`."""
        return f'McpTool(cancel="{_policy(self.task_noticed)}", task=True)'


def _policy(noticed: bool | None) -> str:
    """A cancel that is not known to be noticed is not worth an answer."""
    return "ask" if noticed else "never"
