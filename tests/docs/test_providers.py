"""The providers page says what the code does: contract, capability record, options, and what a reply means (R18)."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from collections.abc import Iterator
from datetime import timedelta
from enum import StrEnum

import httpx
import pytest
from django.utils.functional import Promise

from agentstop.providers.base import Cancel, Capability, Disconnect, Extent, LookUp, Provider, SubmitIdempotency
from agentstop.providers.http import HttpProvider
from agentstop.providers.http_action import STATES, HttpAction
from agentstop.providers.http_answers import cancelled, looked_up, submitted
from agentstop.providers.http_exchange import NoReply, Reply
from agentstop.states import Claim
from agentstop.words import capability_words, sentences
from tests.docs.pages import ROOT, prose, table, words

PAGE = ROOT / "docs" / "providers.md"
CHOICES = {"submit": SubmitIdempotency, "look_up": LookUp, "cancel": Cancel, "disconnect": Disconnect}
NO_ANSWER = "no answer"
ACTION = HttpAction(
    "/jobs",
    look_up_path="/jobs/{key}",
    cancel_path="/jobs/{key}",
    capability=Capability(look_up=LookUp.BY_KEY, authoritative=True, cancel=Cancel.BEST_EFFORT, cancel_needs_ref=False),
)


def shown() -> set[str]:
    """Every sentence that a person can read."""
    return set(_texts([*vars(sentences).values(), *vars(capability_words).values()]))


def _texts(values: object) -> Iterator[str]:
    if isinstance(values, str | Promise):
        yield str(values)
    elif isinstance(values, dict):
        yield from _texts(values.values())
    elif hasattr(values, "__iter__") and not isinstance(values, type):
        for value in values:
            yield from _texts(value)


def test_the_contract_names_every_method_as_it_is_called() -> None:
    told = {words(row[0])[0] for row in table(PAGE, "The contract")}
    methods = {name: method for name, method in vars(Provider).items() if inspect.isfunction(method)}
    assert told == {f"{name}{_parameters(method)}" for name, method in methods.items()}


def _parameters(method: object) -> str:
    assert inspect.isfunction(method)
    parameters = list(inspect.signature(method).parameters.values())[1:]
    names = [("*, " if one.kind is one.KEYWORD_ONLY else "") + one.name for one in parameters]
    return f"({', '.join(names)})"


def test_the_capability_record_is_told_field_by_field_with_its_defaults() -> None:
    rows = table(PAGE, "The capability record")
    told = {words(row[0])[0]: words(row[1])[0] for row in rows}
    assert told == {field.name: str(getattr(Capability(), field.name)) for field in dataclasses.fields(Capability)}


@pytest.mark.parametrize(("name", "choices"), CHOICES.items())
def test_every_choice_of_the_record_is_explained(name: str, choices: type[StrEnum]) -> None:
    [row] = [row for row in table(PAGE, "The capability record") if words(row[0]) == [name]]
    assert set(choices) <= set(words(row[2]))


def test_what_the_page_is_said_to_say_it_says() -> None:
    quoted = [text for row in table(PAGE, "The capability record") for text in re.findall(r'"([^"]+)"', row[3])]
    assert len(quoted) >= 12
    assert set(quoted) <= shown()


def test_the_record_in_words_is_what_the_code_says() -> None:
    record = Capability(
        submit=SubmitIdempotency.KEY,
        key_life=timedelta(days=1),
        look_up=LookUp.BY_KEY,
        authoritative=True,
        cancel=Cancel.BEST_EFFORT,
    )
    told = [(each.subject, each.text) for each in capability_words.describe(record)]
    assert [tuple(row) for row in table(PAGE, "In words")] == told


def test_a_compensation_is_told_with_its_fields() -> None:
    [row] = [row for row in table(PAGE, "The capability record") if words(row[0]) == ["compensation"]]
    assert {"action", "extent", "consequences"} <= set(words(row[2]))
    assert set(Extent) == {"partial", "full"}


def test_the_options_of_the_http_provider_are_those_of_the_code() -> None:
    told = {words(row[0])[0]: (words(row[1]) or [row[1]])[0] for row in table(PAGE, "Options")}
    parameters = list(inspect.signature(HttpProvider.__init__).parameters.values())[1:]
    assert told == {
        one.name: "required" if one.default is inspect.Parameter.empty else repr(one.default) for one in parameters
    }


def test_the_fields_of_an_action_are_those_of_the_code() -> None:
    told = {words(row[0])[0]: (words(row[1]) or [row[1]])[0] for row in table(PAGE, "Actions")}
    in_words = {"path": "required", "capability": "claims nothing", "states": "see below"}
    defaults = {field.name: repr(field.default) for field in dataclasses.fields(HttpAction)}
    assert told == defaults | in_words
    assert HttpAction("/x").capability == Capability()


def test_the_words_for_states_are_those_of_the_code() -> None:
    rows = table(PAGE, "Words for states")
    assert {word: claim for row in rows for claim in words(row[1]) for word in words(row[0])} == STATES


def replies(cell: str) -> list[Reply | NoReply]:
    """The replies that the first cell of a row speaks of."""
    if cell == "no connection":
        return [NoReply(Claim.UNSENT, "")]
    if cell == "sent, no usable reply":
        return [NoReply(Claim.LOST, "")]
    unread = "cannot be read" in cell
    data = {"status": "failed"} if "with a state" in cell else None if unread else {}
    url, text = httpx.URL("http://127.0.0.1/jobs"), json.dumps(data)
    codes = re.findall(r"\d{3}", cell)
    return [Reply(url, int(status), httpx.Headers(), text, data, unread=unread) for status in codes]


def meant(reply: Reply | NoReply) -> list[str]:
    """What the code makes of a reply to a submit, to a look-up and to a cancel request."""
    found, request = looked_up(ACTION, reply), cancelled(ACTION, reply)
    weak = ", never authoritative" if found is not None and not found.authoritative else ""
    effect = ", and that state" if request.answer is not None else ""
    return [
        f"`{submitted(ACTION, reply).claim}`",
        NO_ANSWER if found is None else f"`{found.claim}`{weak}",
        f"`{request.claim}`{effect}",
    ]


def test_what_a_reply_is_said_to_mean_it_means() -> None:
    for first, *cells in table(PAGE, "What a reply means"):
        told = [cell.replace("that state", "`failed`") if cell == "that state" else cell for cell in cells]
        for reply in replies(first):
            assert meant(reply) == told, first


def test_the_switches_that_are_named_exist() -> None:
    from agentstop.testing.sandbox.switches import Switches

    named = re.search(r"other switches of the sandbox, such as (.*?), are", " ".join(prose(PAGE).split()))
    assert named is not None
    assert set(words(named[1])) <= {field.name for field in dataclasses.fields(Switches)}
