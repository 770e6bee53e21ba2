"""Filters of the timeline's templates: numbers as SVG writes them, times as exact as is needed, words that fit."""

from __future__ import annotations

from datetime import datetime, timedelta

from django import template
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext

from agentstop import captions
from agentstop.story import Extent, Kind
from agentstop.timeline.layout import fitted
from agentstop.timeline.timescale import DAY, SECOND, Tick
from agentstop.words import clock_words
from agentstop.words.sentences import Tone

register = template.Library()

MINUTE = timedelta(minutes=1)
SIGNS = {Tone.QUIET: "–", Tone.BUSY: "…", Tone.GOOD: "✓", Tone.NOTICE: "!", Tone.UNSURE: "?", Tone.BAD: "×"}  # noqa: RUF001


@register.filter
def agentstop_number(value: float) -> str:
    """A position, whatever the language writes in place of a point."""
    return f"{value:.1f}".removesuffix(".0")


@register.filter
def agentstop_plus(value: float, more: float) -> str:
    return agentstop_number(value + more)


@register.filter
def agentstop_less(value: float, less: float) -> str:
    return agentstop_number(value - less)


@register.filter
def agentstop_fit(text: str, columns: int) -> str:
    """As much of it as fits into so many columns."""
    return fitted(text, columns)


@register.filter
def agentstop_kind(kind: Kind | Extent) -> str:
    """What a sign stands for."""
    return gettext(captions.KINDS[kind])


@register.filter
def agentstop_sign(tone: Tone) -> str:
    """The sign of a tone, the same as in the panel."""
    return SIGNS[tone]


@register.filter
def agentstop_exact(when: datetime) -> str:
    """Day, time to the millisecond and zone, in the reader's zone."""
    local = timezone.localtime(when)
    return f"{date_format(local, gettext(clock_words.DAY))}, {_milliseconds(local)} {date_format(local, 'T')}"


@register.filter
def agentstop_exact_time(when: datetime) -> str:
    """The time of day to the millisecond."""
    return _milliseconds(timezone.localtime(when))


@register.filter
def agentstop_tick(tick: Tick) -> str:
    """The time of a tick, as exactly as it differs from the next one."""
    local = timezone.localtime(tick.at)
    if tick.step >= DAY:
        return date_format(local, gettext(clock_words.DAY_OF_A_YEAR))
    if tick.step >= MINUTE:
        return date_format(local, "H:i")
    return date_format(local, "H:i:s") if tick.step >= SECOND else _milliseconds(local)


@register.filter
def agentstop_day(tick: Tick) -> str:
    """The day of a tick; the year alone where the day is its time."""
    return date_format(timezone.localtime(tick.at), "Y" if tick.step >= DAY else gettext(clock_words.DAY))


@register.filter
def agentstop_length(length: timedelta) -> str:
    """A length of time by its two largest units."""
    left, said = round(length / timedelta(milliseconds=1)), list[str]()
    for size, unit in captions.UNITS:
        if left >= size and len(said) < 2:
            said.append(gettext(unit) % {"count": left // size})
            left %= size
        elif said:
            break
    return " ".join(said) or gettext(captions.UNITS[-1][1]) % {"count": 0}


def _milliseconds(local: datetime) -> str:
    return f"{date_format(local, 'H:i:s')}.{local.microsecond // 1000:03}"
