"""What a person reads about the agent's own process, and about how fast a press on Stop took hold. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.utils.formats import number_format
from django.utils.translation import gettext

from agentstop.states import RunState, TaskState
from agentstop.words import sentences
from agentstop.words.sentences import Tone

__all__ = ["AgentLine", "read_agent", "read_press"]


@dataclass(frozen=True, slots=True)
class AgentLine:
    """What a person reads about the agent's own process; `since` is when it halted, ended or was last heard of."""

    text: str
    tone: Tone
    since: datetime | None
    silent: bool = False  # its run is live, and nothing was heard of it for a while


def read_press(pressed_at: datetime, last_dispatch_at: datetime | None) -> str:
    """How long after a press the last operation was let go, or how long before it."""
    if last_dispatch_at is None:
        return gettext(sentences.NEVER_DISPATCHED)
    seconds = (last_dispatch_at - pressed_at).total_seconds()
    text = sentences.DISPATCHED_AFTER if seconds > 0 else sentences.DISPATCHED_BEFORE
    return gettext(text) % {"seconds": number_format(abs(seconds), decimal_pos=3 if abs(seconds) < 10 else 0)}


def read_agent(
    run: RunState | None,
    task: TaskState,
    *,
    stopped_at: datetime | None = None,
    halted_at: datetime | None = None,
    heard_at: datetime | None = None,
    silent: bool = False,
) -> AgentLine:
    """What is known of the agent's own process: it says itself that it halted, or has not been heard of since."""
    if run is None:
        return AgentLine(gettext(sentences.NO_AGENT), Tone.QUIET, None)
    if run in sentences.AGENT_ENDED:
        text, tone = sentences.AGENT_ENDED[run]
        return AgentLine(gettext(text), tone, halted_at or heard_at)
    if halted_at is not None:
        return AgentLine(gettext(sentences.AGENT_HALTED), Tone.GOOD, halted_at)
    if run is RunState.LIVE and task is not TaskState.STOPPED:
        text, tone = (sentences.AGENT_SILENT, Tone.UNSURE) if silent else (sentences.AGENT_RUNNING, Tone.BUSY)
        return AgentLine(gettext(text), tone, heard_at, silent)
    if heard_at is not None and stopped_at is not None and heard_at > stopped_at and not silent:
        return AgentLine(gettext(sentences.AGENT_STILL_RUNNING), Tone.NOTICE, heard_at)
    return AgentLine(gettext(sentences.AGENT_NOT_HEARD_OF), Tone.UNSURE, heard_at)
