"""Bad options of the HTTP provider are one sentence at start, and never a secret."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from agentstop.providers.base import Cancel, Capability, Compensation, LookUp
from agentstop.providers.http import HttpAction, HttpProvider
from agentstop.states import Claim

GOOD: dict[str, Any] = {"base_url": "https://api.example/v1", "actions": {"a.b": HttpAction("/things")}}


def test_good_options_are_taken() -> None:
    provider = HttpProvider(**GOOD, headers={"Authorization": "Bearer x"})
    assert provider.capability("a.b") == Capability()


def test_an_unknown_action_is_named_with_the_known_ones() -> None:
    with pytest.raises(LookupError, match=r"no action 'a.c' at api.example: use one of a.b"):
        HttpProvider(**GOOD).capability("a.c")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"base_url": "api.example"}, "is no address"),
        ({"base_url": None}, "is no address"),
        ({"base_url": "ftp://api.example"}, "is no address"),
        ({"base_url": "https://ann:s3cret@api.example"}, "put credentials into headers"),
        ({"base_url": "https://api.example/?a=b"}, "holds a login, query or fragment"),
        ({"actions": {}}, "has no actions"),
        ({"actions": {"a.b": "/things"}}, "'a.b' is '/things': make it an HttpAction"),
        ({"headers": {"X Y": "z"}}, "header name 'X Y'"),
        ({"headers": {"X-Y": "s3cret\r\n"}}, "header 'X-Y' has a value that cannot be sent"),
        ({"headers": {"X-Y": b"s3cret"}}, "header 'X-Y' has a value that cannot be sent"),
        ({"idempotency_header": "a:b"}, "header name 'a:b'"),
        ({"idempotency_format": "naked"}, "use one of bare, quoted"),
        ({"connect_timeout": 0}, "connect_timeout is 0"),
        ({"body_cap": -1}, "body_cap is -1"),
    ],
)
def test_a_bad_option_says_which_and_what_to_do_and_no_secret(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ImproperlyConfigured) as caught:
        HttpProvider(**{**GOOD, **options})
    assert sentence in str(caught.value)
    assert "s3cret" not in str(caught.value)


BY_KEY, BY_REF = Capability(look_up=LookUp.BY_KEY), Capability(look_up=LookUp.BY_REF)
SEARCH = Capability(look_up=LookUp.SEARCH)
CANCELLABLE = Capability(cancel=Cancel.BEST_EFFORT)
UNDOABLE = Capability(compensation=Compensation("a.undo"))


@pytest.mark.parametrize(
    ("action", "sentence"),
    [
        (HttpAction("things"), "begin it with a slash"),
        (HttpAction(""), "begin it with a slash"),
        (HttpAction("/{"), "unbalanced braces"),
        (HttpAction("/{0}"), "without a plain name"),
        (HttpAction("/{a.b}"), "without a plain name"),
        (HttpAction("/{ref}"), "nothing has a reference before it was sent"),
        (HttpAction("/a", look_up_path="/a/{key}"), "its capability says look_up=none"),
        (HttpAction("/a", capability=BY_KEY), "its look_up_path has no {key}"),
        (HttpAction("/a", capability=BY_REF, look_up_path="/a/{key}"), "its look_up_path has no {ref}"),
        (HttpAction("/a", capability=CANCELLABLE), "needs a cancel_path exactly where"),
        (HttpAction("/a", cancel_path="{ref}"), "needs a cancel_path exactly where"),
        (HttpAction("/a", capability=CANCELLABLE, cancel_path="/a/{key}"), "say cancel_needs_ref exactly where"),
        (HttpAction("/a", capability=UNDOABLE), "is undone by 'a.undo', which is none of the actions: add it"),
        (HttpAction("/a", capability=SEARCH), "looks up by search, but its look_up_path has no {key}"),
        (HttpAction("/a", capability=SEARCH, look_up_path="/a?m={key}"), "sends no key along: set key_field"),
        (HttpAction("/a", capability=Capability(ack_is_final=True)), "but cancel is never"),
        (HttpAction("/a", states={"Done": Claim.SUCCEEDED}), "maps the state 'Done'"),
        (HttpAction("/a", states={"done": "succeeded"}), "maps the state 'done'"),  # type: ignore[dict-item]
    ],
)
def test_a_bad_action_says_which_and_what_to_do(action: HttpAction, sentence: str) -> None:
    with pytest.raises(ImproperlyConfigured) as caught:
        HttpProvider(base_url="https://api.example", actions={"a.b": action})
    assert "'a.b'" in str(caught.value)
    assert sentence in str(caught.value)


def test_an_action_that_is_undone_by_another_one_is_taken() -> None:
    actions = {"a.b": HttpAction("/a", capability=UNDOABLE), "a.undo": HttpAction("/undos")}
    assert HttpProvider(base_url="https://api.example", actions=actions).capability("a.b") is UNDOABLE
