"""What replies say: every status, every word of a state, without a socket (R12, R19, R20)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from agentstop.providers.base import Capability, LookUp
from agentstop.providers.http_action import STATES, HttpAction
from agentstop.providers.http_answers import cancelled, looked_up, submitted
from agentstop.providers.http_exchange import NoReply, Reply
from agentstop.states import FINAL_CLAIMS, Claim, Source

ACTION = HttpAction(
    "/jobs",
    capability=Capability(look_up=LookUp.BY_KEY, authoritative=True),
    look_up_path="/jobs/{key}",
    result_field="out.value",
    at_field="done",
    progress_field="share",
)
URL = httpx.URL("https://api.example/v1/jobs")
REFUSED = {*range(400, 500)} - {408, 409, 425, 429}
DONE = {200, 201, 203, 204, 205}


def reply(status: int, data: Any = None, **headers: str) -> Reply:
    told = httpx.Headers({name.replace("_", "-"): value for name, value in headers.items()})
    return Reply(URL, status, told, text=repr(data) if data else "", data=data)


class TestSubmitted:
    def test_every_status_has_one_meaning(self) -> None:
        expected = dict.fromkeys(range(200, 600), Claim.LOST)
        expected |= dict.fromkeys(REFUSED, Claim.REFUSED) | dict.fromkeys(DONE, Claim.SUCCEEDED)
        expected[202] = Claim.ACCEPTED
        answers = {status: submitted(ACTION, reply(status)) for status in expected}
        assert {status: answer.claim for status, answer in answers.items()} == expected
        assert {answer.source for answer in answers.values()} == {Source.PROVIDER}

    @pytest.mark.parametrize(("word", "claim"), STATES.items())
    def test_a_state_in_a_good_reply_is_believed_before_its_status(self, word: str, claim: Claim) -> None:
        accepted = submitted(ACTION, reply(202, {"status": word}))
        assert submitted(ACTION, reply(200, {"status": word})).claim is claim
        assert accepted.claim is (claim if claim in FINAL_CLAIMS else Claim.ACCEPTED)

    @pytest.mark.parametrize("status", [400, 409, 500])
    def test_a_state_in_an_error_says_nothing(self, status: int) -> None:
        answer = submitted(ACTION, reply(status, {"status": "succeeded"}))
        assert answer.claim in {Claim.REFUSED, Claim.LOST}

    def test_an_unknown_state_leaves_the_word_to_the_status(self) -> None:
        assert submitted(ACTION, reply(201, {"status": "shiny"})).claim is Claim.SUCCEEDED

    @pytest.mark.parametrize("claim", [Claim.UNSENT, Claim.LOST])
    def test_no_reply_is_told_by_the_sender(self, claim: Claim) -> None:
        answer = submitted(ACTION, NoReply(claim, "why"))
        assert (answer.claim, answer.source, answer.body) == (claim, Source.SENDER, "why")

    def test_the_fields_of_an_answer_are_picked(self) -> None:
        data = {"status": "succeeded", "out": {"value": [1]}, "done": "2026-01-02T03:04:05Z", "share": 0.5}
        answer = submitted(ACTION, reply(200, data, location="/v1/jobs/7"))
        assert answer.result == [1]
        assert answer.at == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
        assert (answer.ref, answer.progress) == ("/v1/jobs/7", 0.5)

    @pytest.mark.parametrize("data", [None, 1, "text", [], {}, {"out": 1, "done": 5, "share": "x"}, {"share": True}])
    def test_fields_that_are_missing_or_of_another_kind_are_left_out(self, data: Any) -> None:
        answer = submitted(ACTION, reply(200, data))
        assert (answer.claim, answer.at, answer.progress, answer.ref) == (Claim.SUCCEEDED, None, None, "")

    def test_a_time_without_an_offset_names_no_moment(self) -> None:
        assert submitted(ACTION, reply(200, {"done": "2026-01-02T03:04:05"})).at is None

    @pytest.mark.parametrize(("told", "ref"), [(7, "7"), ("a-7", "a-7"), (True, ""), (None, ""), ({}, "")])
    def test_the_reference_can_be_a_field(self, told: Any, ref: str) -> None:
        action = HttpAction("/jobs", ref_field="id")
        assert submitted(action, reply(200, {"id": told})).ref == ref

    @pytest.mark.parametrize(
        ("told", "seconds"),
        [
            ("3", 3.0),
            ("0", 0.0),
            ("Thu, 01 Jan 2026 00:01:00 GMT", 60.0),
            ("Wed, 31 Dec 2025 00:00:00 GMT", 0.0),
            ("99999999999999999999", 7 * 24 * 3600.0),
            ("soon", None),
            ("-1", None),
            ("", None),
        ],
    )
    def test_retry_after_is_seconds_or_a_date_on_the_providers_clock(self, told: str, seconds: float | None) -> None:
        answer = submitted(ACTION, reply(429, retry_after=told, date="Thu, 01 Jan 2026 00:00:00 GMT"))
        assert answer.retry_after == seconds

    def test_a_retry_after_date_without_a_clock_is_measured_on_ours(self) -> None:
        assert submitted(ACTION, reply(503, retry_after="Thu, 01 Jan 2015 00:00:00 GMT")).retry_after == 0.0


class TestLookedUp:
    @pytest.mark.parametrize(("word", "claim"), STATES.items())
    def test_a_state_is_the_answer(self, word: str, claim: Claim) -> None:
        answer = looked_up(ACTION, reply(200, {"status": word.upper()}))
        assert answer is not None
        assert (answer.claim, answer.source) == (claim, Source.READ_BACK)

    def test_other_statuses_are_no_answer_even_with_a_state(self) -> None:
        for status in {*range(206, 600)} - {404, 410}:
            assert looked_up(ACTION, reply(status, {"status": "succeeded"})) is None, status

    def test_an_unknown_state_is_no_answer(self) -> None:
        assert looked_up(ACTION, reply(200, {"status": "shiny"})) is None
        assert looked_up(ACTION, reply(200)) is None

    def test_still_accepted_is_running(self) -> None:
        answer = looked_up(ACTION, reply(202))
        assert answer is not None
        assert answer.claim is Claim.RUNNING

    def test_where_there_are_no_states_to_be_found_is_to_have_succeeded(self) -> None:
        answer = looked_up(HttpAction("/things", state_field=""), reply(200, {"name": "x"}))
        assert answer is not None
        assert answer.claim is Claim.SUCCEEDED

    @pytest.mark.parametrize("authoritative", [True, False])
    def test_not_found_proves_as_much_as_the_capability_says(self, authoritative: bool) -> None:
        capability = Capability(look_up=LookUp.BY_KEY, authoritative=authoritative)
        answer = looked_up(HttpAction("/jobs", capability=capability, look_up_path="/jobs/{key}"), reply(404))
        assert answer is not None
        assert (answer.claim, answer.authoritative) == (Claim.NOT_FOUND, authoritative)

    def test_gone_is_not_found_but_never_proof_that_nothing_happened(self) -> None:
        answer = looked_up(ACTION, reply(410))
        assert answer is not None
        assert (answer.claim, answer.authoritative) == (Claim.NOT_FOUND, False)

    def test_no_reply_is_no_answer(self) -> None:
        assert looked_up(ACTION, NoReply(Claim.LOST, "why")) is None


class TestCancelled:
    def test_every_status_has_one_meaning(self) -> None:
        expected = dict.fromkeys(range(200, 500), Claim.LOST) | dict.fromkeys(range(500, 600), Claim.FAILED)
        expected |= dict.fromkeys({*REFUSED, 409}, Claim.REFUSED) | dict.fromkeys({408, 425, 429}, Claim.FAILED)
        expected |= dict.fromkeys({*DONE, 202}, Claim.CANCELLED)
        replies = {status: cancelled(ACTION, reply(status)) for status in expected}
        assert {status: told.claim for status, told in replies.items()} == expected
        assert {told.answer for told in replies.values()} == {None}

    @pytest.mark.parametrize("status", [200, 202, 409])
    @pytest.mark.parametrize(("word", "claim"), STATES.items())
    def test_a_state_in_the_reply_is_the_word_about_the_effect(self, status: int, word: str, claim: Claim) -> None:
        answer = cancelled(ACTION, reply(status, {"status": word})).answer
        assert answer is not None
        assert (answer.claim, answer.source) == (claim, Source.PROVIDER)

    def test_an_acknowledgement_alone_says_nothing_about_the_effect(self) -> None:
        assert cancelled(ACTION, reply(204)).answer is None

    def test_a_state_in_an_error_of_the_provider_says_nothing(self) -> None:
        assert cancelled(ACTION, reply(500, {"status": "cancelled"})).answer is None

    @pytest.mark.parametrize(("final", "claim"), [(False, Claim.CANCELLED), (True, Claim.LOST)])
    def test_what_cannot_be_read_acknowledges_and_proves_nothing(self, final: bool, claim: Claim) -> None:
        """It might say that it was too late."""
        action = replace(ACTION, capability=replace(ACTION.capability, ack_is_final=final))
        told = cancelled(action, replace(reply(200), unread=True))
        assert (told.claim, told.answer) == (claim, None)
        assert cancelled(action, reply(200)).claim is Claim.CANCELLED

    @pytest.mark.parametrize("claim", [Claim.UNSENT, Claim.LOST])
    def test_no_reply_keeps_what_is_known_of_the_request(self, claim: Claim) -> None:
        assert cancelled(ACTION, NoReply(claim, "why")).claim is claim
