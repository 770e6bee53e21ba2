"""Undoing at the sandbox: an effect of its own, beside which the record of the first one stays."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import httpx
import pytest

from agentstop.testing.sandbox.client import SandboxClient
from tests.testing.requests import GUARD, create, status, undo

KINDS = ["report", "upload", "notification"]


def made(http: httpx.Client, client: SandboxClient, kind: str = "upload", **body: Any) -> dict[str, Any]:
    create(http, kind, **{"text": "Q3", "label": "task", "seconds": 0, **body})
    return client.settled("k")[0]


class TestUndoing:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("by", ["original_ref", "original_key"])
    def test_it_is_answered_when_done_and_linked_to_what_it_undoes(
        self, http: httpx.Client, client: SandboxClient, kind: str, by: str
    ) -> None:
        first = made(http, client, kind)
        reply = undo(http, **{by: first["ref"] if by == "original_ref" else "k"})
        told = reply.json()
        assert (reply.status_code, reply.headers["location"], told["status"]) == (201, told["ref"], "succeeded")
        assert (told["kind"], told["undoes"], told["label"], told["text"]) == ("undo", first["ref"], "task", "undo: Q3")
        assert client.undos("k")[0]["ref"] == told["ref"]

    def test_both_names_must_mean_the_same_effect(self, http: httpx.Client, client: SandboxClient) -> None:
        first = made(http, client)
        create(http, "upload", "other", seconds=0)
        assert undo(http, original_ref=first["ref"], original_key="other").status_code == 404
        assert undo(http, original_ref=first["ref"], original_key="k").status_code == 201

    @pytest.mark.parametrize("kind", KINDS)
    def test_what_was_undone_has_been_done_and_says_when_it_was_undone(
        self, http: httpx.Client, client: SandboxClient, kind: str
    ) -> None:
        first = made(http, client, kind)
        done_at = undo(http).json()["done_at"]
        assert first["undone_at"] is None
        for path in ("/operations/k", first["ref"]):
            told = http.get(path).json()
            assert (told["status"], told["undone_at"]) == ("succeeded", done_at)
            result = {**told["result"], "link": first["ref"]}  # which is told with the whole address over HTTP
            assert {**told, "undone_at": None, "result": result} == {name: first[name] for name in told}

    def test_the_provider_can_forget_what_was_undone(self, http: httpx.Client, client: SandboxClient) -> None:
        ref = made(http, client, sandbox={"forget_undone": True})["ref"]
        assert http.get(ref).status_code == 200
        undo(http)
        assert [http.get(path).status_code for path in (ref, "/operations/k", "/operations/u")] == [404, 404, 200]
        assert client.effects("k")[0]["undone_at"]

    @pytest.mark.parametrize(("kind", "remains"), [("upload", ""), ("notification", "Whoever was notified")])
    def test_only_undoing_a_notification_leaves_something(
        self, http: httpx.Client, client: SandboxClient, kind: str, remains: str
    ) -> None:
        made(http, client, kind)
        told = undo(http).json()["result"]["remains"]
        assert (told[: len(remains)], bool(told)) == (remains, bool(remains))

    def test_the_same_key_undoes_once_with_one_answer(self, http: httpx.Client, client: SandboxClient) -> None:
        made(http, client)
        first, second = undo(http), undo(http)
        assert first.json() == second.json()
        assert client.counts("u") == {"submits": 2, "reads": 0, "cancels": 0, "writes": 1}
        assert (client.writes(task="task"), client.standing(task="task")) == (2, 0)

    def test_the_same_key_for_another_undoing_is_422(self, http: httpx.Client, client: SandboxClient) -> None:
        made(http, client)
        create(http, "upload", "other", seconds=0)
        undo(http)
        assert undo(http, original_key="other").status_code == 422

    def test_an_undoing_cannot_be_cancelled(self, http: httpx.Client, client: SandboxClient) -> None:
        made(http, client)
        assert http.delete(undo(http).json()["ref"]).status_code == 405


class TestRefusals:
    @pytest.mark.parametrize("names", [{"original_key": "k"}, {"original_ref": "/uploads/1"}, {"original_key": ""}])
    def test_what_does_not_exist_is_404(self, http: httpx.Client, client: SandboxClient, names: dict[str, str]) -> None:
        assert undo(http, **names).status_code == 404
        assert client.counts("u") == {"submits": 1, "reads": 0, "cancels": 0, "writes": 0}

    def test_what_is_not_done_is_409(self, http: httpx.Client, client: SandboxClient) -> None:
        create(http, seconds=60)
        assert "it is running" in undo(http).json()["title"]
        http.delete("/operations/k")
        assert undo(http).status_code == 409
        assert client.undos("k") == []

    def test_what_failed_is_409(self, http: httpx.Client, client: SandboxClient) -> None:
        made(http, client, sandbox={"fail": True})
        assert undo(http).status_code == 409

    def test_what_is_undone_under_another_key_is_409(self, http: httpx.Client, client: SandboxClient) -> None:
        made(http, client)
        undo(http)
        assert undo(http, "u2").status_code == 409
        assert undo(http, "").status_code == 409
        assert len(client.undos("k")) == 1

    def test_what_is_being_undone_under_another_key_is_409(
        self, http: httpx.Client, client: SandboxClient, background: Callable[..., Future[Any]]
    ) -> None:
        made(http, client)
        client.hold("working", "undo: Q3")
        first = background(undo, http)
        client.wait("working", "undo: Q3")
        assert undo(http, "u2").status_code == 409
        assert http.get("/operations/k").json()["undone_at"] is None
        client.release("working", "undo: Q3")
        assert first.result(GUARD).status_code == 201

    def test_an_undoing_cannot_be_undone(self, http: httpx.Client, client: SandboxClient) -> None:
        made(http, client)
        ref = undo(http).json()["ref"]
        assert undo(http, "u2", original_ref=ref).status_code == 409


class TestSwitches:
    """They stand in the request to undo or, since that one is often not the test's own, in the first effect's."""

    @pytest.mark.parametrize("where", ["in the first", "in the undoing"])
    def test_failing_to_undo_leaves_the_effect_and_another_key_may_try_again(
        self, http: httpx.Client, client: SandboxClient, where: str
    ) -> None:
        fail = {"fail": True}
        own: dict[str, Any] = {"sandbox": fail} if where == "in the undoing" else {}
        made(http, client, sandbox={"undo": fail} if where == "in the first" else {})
        reply = undo(http, **own)
        assert (reply.status_code, reply.json()["status"], status(http)) == (200, "failed", "succeeded")
        assert client.standing(task="task") == 1
        assert undo(http, "u2", sandbox={}).status_code == 201
        assert undo(http, **own).json()["status"] == "failed"

    @pytest.mark.parametrize(
        ("switch", "error"), [("drop", httpx.ReadError), ("lose_response", httpx.RemoteProtocolError)]
    )
    def test_an_undoing_without_an_answer_has_happened(
        self, http: httpx.Client, client: SandboxClient, switch: str, error: type[Exception]
    ) -> None:
        made(http, client, sandbox={"undo": {switch: True}})
        with pytest.raises(error):
            undo(http)
        assert client.settled("u")[0]["status"] == "succeeded"
        assert client.standing(task="task") == 0

    @pytest.mark.parametrize(("switch", "code"), [("refuse", 400), ("server_error", 500)])
    def test_a_refusal_or_an_error_undoes_nothing(
        self, http: httpx.Client, client: SandboxClient, switch: str, code: int
    ) -> None:
        made(http, client, sandbox={"undo": {switch: True}})
        assert undo(http).status_code == code
        assert (client.undos("k"), client.standing(task="task")) == ([], 1)

    def test_a_slow_undoing_is_not_done_before_it_is_done(self, http: httpx.Client, client: SandboxClient) -> None:
        made(http, client, sandbox={"undo": {"slow": 60, "drop": True}})
        with pytest.raises(httpx.ReadError):
            undo(http)
        assert (status(http, "u"), client.standing(task="task")) == ("running", 1)

    def test_a_senseless_switch_for_the_undoing_is_400_before_anything_is_made(
        self, http: httpx.Client, client: SandboxClient
    ) -> None:
        assert create(http, sandbox={"undo": {"explode": True}}).status_code == 400
        assert create(http, sandbox={"undo": 1}).status_code == 400
        assert client.ledger()["effects"] == []


def test_the_page_shows_what_was_undone_and_by_what(http: httpx.Client, client: SandboxClient) -> None:
    ref = made(http, client)["ref"]
    assert "undone" not in http.get("/").text
    undo(http)
    page = http.get("/").text
    assert page.count('<span class="undone">undone <time') == 1
    assert f'takes back <a href="{ref}">{ref}</a>' in page
