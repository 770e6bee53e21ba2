"""What is claimed of effects that the caller's own code makes."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.exceptions import ImproperlyConfigured

from agentstop.providers.base import Capability, SubmitIdempotency
from agentstop.providers.claimed import ClaimedProvider

KEYED = Capability(submit=SubmitIdempotency.KEY, key_life=timedelta(days=1))


def test_what_is_claimed_of_an_action_is_its_record() -> None:
    provider = ClaimedProvider(actions={"a.b": KEYED}, others=Capability())
    assert (provider.capability("a.b"), provider.capability("c.d")) == (KEYED, Capability())


def test_without_a_record_of_others_an_unknown_action_is_refused() -> None:
    with pytest.raises(LookupError, match=r"no action 'c.d': use one of a.b"):
        ClaimedProvider(actions={"a.b": KEYED}).capability("c.d")


@pytest.mark.parametrize(
    ("record", "sentence"),
    [(Capability(authoritative=True), "'a.b' calls a look-up authoritative"), ({}, "make it a Capability")],
)
def test_a_bad_record_is_one_sentence_at_start(record: Capability, sentence: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=sentence):
        ClaimedProvider(actions={"a.b": record})
