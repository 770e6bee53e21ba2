"""R38: every sentence has its German, fills in what the original does, and what is compiled is current."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from babel.messages.catalog import Catalog, Message
from django.template.loader import render_to_string
from django.utils import translation
from django.utils.formats import date_format

from agentstop.states import TaskState
from agentstop.words import clock_words
from agentstop.words.wording import Label, summarise
from tests.wording.catalogues import DOMAINS, Domain, compiled, extracted, missing, stored, translations

EACH = pytest.mark.parametrize("domain", DOMAINS, ids=lambda domain: domain.name)
AGAIN = "Run `python -m tests.wording.catalogues` and translate what it lists."
FILLED = re.compile(r"%\((\w+)\)[sd]|%%|</?\w+>")
COUNTED = re.compile(r"^(?:\W*and )?%\((?:count|number|counter)\)[sd] (?!min$|s$|ms$|h$|d$)\w{2,}")


def said(message: Message) -> tuple[str, ...]:
    return (message.id,) if isinstance(message.id, str) else tuple(message.id)


def texts(domain: Domain) -> tuple[Catalog, Catalog]:
    return compiled(domain), stored(domain)


@EACH
def test_every_sentence_of_the_sources_is_translated_and_looked_at(domain: Domain) -> None:
    marked = {message.id for message in extracted(domain)}
    assert {message.id for message in stored(domain)} == marked, AGAIN
    assert [message.id for message in missing(stored(domain))] == [], AGAIN


@EACH
def test_what_is_compiled_is_what_is_written(domain: Domain) -> None:
    read, written = ({said(each): translations(each) for each in found if each.id} for found in texts(domain))
    assert read == written, AGAIN


@EACH
def test_a_translation_fills_in_what_its_original_does_and_has_a_plural_for_each_count(domain: Domain) -> None:
    for message in stored(domain):
        if message.id:
            plurals = 1 if isinstance(message.id, str) else 2
            assert len(translations(message)) == plurals, message.id
            wanted = sorted(FILLED.findall(said(message)[-1]))
            for told in translations(message):
                assert sorted(FILLED.findall(told)) == wanted, (message.id, told)
                assert told.endswith(".") == said(message)[0].endswith("."), (message.id, told)


@EACH
def test_every_count_has_plurals(domain: Domain) -> None:
    """`3 tasks` and `1 task` are two texts in every language, and three in some."""
    alone = [message.id for message in stored(domain) if isinstance(message.id, str) and COUNTED.search(message.id)]
    assert alone == []


def test_a_missing_or_guessed_translation_would_be_found() -> None:
    catalog = stored(DOMAINS[0])
    told = catalog.get("Stop")
    assert told is not None
    told.string = ""
    assert [message.id for message in missing(catalog)] == ["Stop"]
    told.string, told.flags = "Stopp", {"fuzzy"}
    assert [message.id for message in missing(catalog)] == ["Stop"]


def test_the_words_that_matter_most_are_said_as_germans_say_them() -> None:
    counts = {Label.STILL_ACTIVE: 1, Label.CANCELLED: 2, Label.COMPLETED_BEFORE: 1, Label.UNKNOWN: 1, Label.WAITING: 2}
    with translation.override("de"):
        assert summarise(TaskState.STOPPED, counts) == (
            "Gestoppt. Es wird nichts Neues mehr gesendet. 1 noch aktiv · 2 abgebrochen · "
            "1 vor dem Abbruch abgeschlossen · 1 mit unbekanntem Ausgang · 2 warten"
        )
        assert translation.gettext("unknown outcome") == "Ausgang unbekannt"
        assert translation.gettext("Stop") == "Stopp"
        moment = datetime(2026, 3, 1, 12, tzinfo=UTC)
        assert date_format(moment, translation.gettext(clock_words.ANOTHER_DAY)) == "1. März 2026, 12:00:00"
        assert "Nicht live: Das ist der Stand von 1. März 2026" in render_to_string(
            "agentstop/mark.html", {"now": moment}
        )
