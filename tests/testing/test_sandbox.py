"""The sandbox provider: what it accepts, once for each key, and how it misbehaves when asked to."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from agentstop.testing.sandbox.client import SandboxClient
from tests.testing.requests import GUARD, create, status


class TestEffects:
    def test_a_report_is_accepted_with_a_location_and_done_later(
        self, http: httpx.Client, client: SandboxClient
    ) -> None:
        client.hold("working")
        accepted = create(http, text="Q3", label="task 1", seconds=0)
        assert (accepted.status_code, accepted.headers["location"]) == (202, accepted.json()["ref"])
        assert status(http) == "running"
        client.release("working")
        assert client.settled("k")[0]["result"] == {"link": accepted.json()["ref"], "text": "Q3"}

    @pytest.mark.parametrize("kind", ["upload", "notification"])
    def test_what_is_no_job_is_answered_when_it_is_done(self, http: httpx.Client, kind: str) -> None:
        created = create(http, kind, seconds=0)
        assert (created.status_code, created.json()["status"]) == (201, "succeeded")
        assert http.get(created.headers["location"]).json() == created.json()

    def test_the_same_key_has_one_effect_and_one_answer(self, http: httpx.Client, client: SandboxClient) -> None:
        first, second = (create(http, "notification", text="hello") for _ in range(2))
        assert first.json() == second.json()
        assert len(client.effects("k")) == 1
        assert client.counts("k") == {"submits": 2, "reads": 0, "cancels": 0, "writes": 1}

    def test_without_a_key_each_request_has_its_effect(self, http: httpx.Client, client: SandboxClient) -> None:
        for _ in range(2):
            create(http, "notification", key="", label="blind")
        assert client.writes(task="blind") == 2

    def test_the_same_key_with_another_request_is_422(self, http: httpx.Client, client: SandboxClient) -> None:
        create(http, "notification", text="hello")
        assert create(http, "notification", text="bye").status_code == 422
        assert create(http, "upload", text="hello").status_code == 422
        assert len(client.effects("k")) == 1

    def test_switches_are_no_part_of_the_identity(self, http: httpx.Client) -> None:
        create(http, "notification", text="hello", sandbox={"server_error": 1})
        assert create(http, "notification", text="hello").status_code == 201

    def test_a_key_in_flight_is_409(
        self, http: httpx.Client, client: SandboxClient, background: Callable[..., Future[Any]]
    ) -> None:
        client.hold("received")
        first = background(create, http, "upload")
        client.wait("received")
        assert create(http, "upload").status_code == 409
        client.release("received")
        assert first.result(GUARD).status_code == 201

    def test_a_key_quoted_as_a_structured_field_is_the_same_key(self, http: httpx.Client) -> None:
        create(http, "notification", key='"a\\"b"')
        assert status(http, "a%22b") == "succeeded"

    def test_look_ups_write_nothing(self, http: httpx.Client, client: SandboxClient) -> None:
        ref = create(http, "notification").json()["ref"]
        before = client.ledger()["effects"]
        for path in ("/operations/k", ref, "/operations/never-sent", "/reports/999"):
            http.get(path)
        assert client.ledger()["effects"] == before
        assert client.counts("k") == {"submits": 1, "reads": 2, "cancels": 0, "writes": 1}
        assert client.counts("never-sent") == {"submits": 0, "reads": 1, "cancels": 0, "writes": 0}


class TestCancels:
    def test_a_running_report_is_cancelled_and_stays_so(self, http: httpx.Client, client: SandboxClient) -> None:
        ref = create(http, seconds=60).json()["ref"]
        for _ in range(2):
            reply = http.delete(ref)
            assert (reply.status_code, reply.json()["status"]) == (200, "cancelled")
        effect = client.effects("k")[0]
        assert effect["cancelled_at"]
        assert effect["done_at"] is None
        assert client.counts("k")["writes"] == 0

    def test_a_report_can_be_cancelled_by_its_key(self, http: httpx.Client) -> None:
        create(http, seconds=60)
        assert http.delete("/operations/k").json()["status"] == "cancelled"

    def test_a_report_that_is_done_cannot_be_cancelled(self, http: httpx.Client, client: SandboxClient) -> None:
        client.hold("effect")
        with ThreadPoolExecutor(1) as pool:
            created = pool.submit(create, http, seconds=0)
            client.wait("effect")
            reply = http.delete("/operations/k")
            client.release("effect")
            assert created.result(GUARD).json()["status"] == "succeeded"
        assert (reply.status_code, reply.json()["status"]) == (409, "succeeded")

    @pytest.mark.parametrize("kind", ["upload", "notification"])
    def test_uploads_and_notifications_cannot_be_cancelled(self, http: httpx.Client, kind: str) -> None:
        reply = http.delete(create(http, kind, seconds=0).json()["ref"])
        assert (reply.status_code, reply.json()["status"]) == (405, "succeeded")

    def test_what_does_not_exist_is_404(self, http: httpx.Client) -> None:
        assert http.delete("/reports/1").status_code == http.delete("/operations/x").status_code == 404


class TestSwitches:
    def test_a_dropped_request_has_its_effect_and_no_answer(self, http: httpx.Client, client: SandboxClient) -> None:
        client.hold("working")
        with pytest.raises(httpx.ReadError):
            create(http, "upload", seconds=0, sandbox={"drop": True})
        assert status(http) == "running"
        client.release("working")
        assert client.settled("k")[0]["status"] == "succeeded"

    @pytest.mark.parametrize("kind", ["report", "upload", "notification"])
    def test_a_lost_response_comes_after_the_effect(self, http: httpx.Client, client: SandboxClient, kind: str) -> None:
        with pytest.raises(httpx.RemoteProtocolError):
            create(http, kind, seconds=0, sandbox={"lose_response": True})
        assert client.counts("k")["writes"] == 1

    def test_a_refused_request_has_no_effect(self, http: httpx.Client, client: SandboxClient) -> None:
        assert create(http, sandbox={"refuse": True}).status_code == 400
        assert client.effects("k") == []

    def test_server_errors_come_so_many_times_and_accept_nothing(
        self, http: httpx.Client, client: SandboxClient
    ) -> None:
        codes = [create(http, "notification", sandbox={"server_error": 2}).status_code for _ in range(3)]
        assert codes == [500, 500, 201]
        assert client.counts("k")["writes"] == 1

    def test_nonsense_is_an_answer_that_nobody_can_read(self, http: httpx.Client, client: SandboxClient) -> None:
        reply = create(http, "notification", sandbox={"nonsense": True})
        with pytest.raises(ValueError, match="decode"):
            reply.json()
        assert client.counts("k")["writes"] == 1

    def test_failing_work_ends_as_failed(self, http: httpx.Client, client: SandboxClient) -> None:
        assert create(http, "upload", seconds=0, sandbox={"fail": True}).json()["status"] == "failed"
        assert client.counts("k")["writes"] == 0

    def test_a_refused_cancel_leaves_it_running(self, http: httpx.Client) -> None:
        create(http, seconds=60, sandbox={"refuse_cancel": True})
        reply = http.delete("/operations/k")
        assert (reply.status_code, reply.json()["status"]) == (409, "running")

    def test_an_acknowledged_cancel_can_complete_all_the_same(self, http: httpx.Client, client: SandboxClient) -> None:
        client.hold("working")
        create(http, seconds=0, sandbox={"ack_and_complete": True})
        reply = http.delete("/operations/k")
        assert (reply.status_code, reply.json()["status"]) == (202, "running")
        client.release("working")
        assert client.settled("k")[0]["status"] == "succeeded"

    def test_a_confirmed_cancel_can_complete_all_the_same(self, http: httpx.Client, client: SandboxClient) -> None:
        client.hold("working")
        create(http, seconds=0, sandbox={"confirm_and_complete": True})
        reply = http.delete("/operations/k")
        assert (reply.status_code, reply.json()["status"]) == (200, "cancelled")
        client.release("working")
        assert client.settled("k")[0]["status"] == "succeeded"

    def test_an_answer_can_say_done_of_what_was_cancelled(self, http: httpx.Client, client: SandboxClient) -> None:
        client.hold("accepted")
        with ThreadPoolExecutor(1) as pool:
            created = pool.submit(create, http, seconds=60, sandbox={"answer_done": True})
            client.wait("accepted")
            assert http.delete("/operations/k").json()["status"] == "cancelled"
            client.release("accepted")
            assert created.result(GUARD).json()["status"] == "succeeded"
        assert status(http) == "cancelled"
        assert client.counts("k")["writes"] == 0

    def test_cancel_errors_come_so_many_times(self, http: httpx.Client) -> None:
        create(http, seconds=60, sandbox={"cancel_error": 2})
        assert [http.delete("/operations/k").status_code for _ in range(3)] == [500, 500, 200]

    def test_look_up_errors_come_so_many_times(self, http: httpx.Client) -> None:
        create(http, seconds=60, sandbox={"look_up_error": True})
        assert [http.get("/operations/k").status_code for _ in range(2)] == [503, 200]

    def test_slow_outweighs_what_the_request_says(self, http: httpx.Client) -> None:
        create(http, seconds=0, sandbox={"slow": 60})
        assert status(http) == "running"

    @pytest.mark.parametrize(
        "body",
        [
            {"sandbox": {"explode": True}},
            {"sandbox": {"slow": "long"}},
            {"sandbox": {"slow": 1e9}},
            {"sandbox": 1},
            {"seconds": -1},
            {"seconds": True},
        ],
    )
    def test_an_unknown_or_senseless_switch_is_400(
        self, http: httpx.Client, client: SandboxClient, body: dict[str, Any]
    ) -> None:
        assert create(http, **body).status_code == 400
        assert client.ledger()["effects"] == []


class TestBadRequests:
    @pytest.mark.parametrize("path", ["/reports", "/_control/reset"])
    def test_another_content_type_is_refused_so_no_foreign_page_can_press_here(
        self, http: httpx.Client, path: str
    ) -> None:
        assert http.post(path, content="{}", headers={"content-type": "text/plain"}).status_code == 415

    @pytest.mark.parametrize("content", ["{", "[]", "1"])
    def test_a_body_that_is_no_object_is_400(self, http: httpx.Client, content: str) -> None:
        reply = http.post("/reports", content=content, headers={"content-type": "application/json"})
        assert reply.status_code == 400

    def test_unknown_paths_and_methods_are_told(self, http: httpx.Client) -> None:
        assert http.get("/nothing").status_code == http.post("/nothing", json={}).status_code == 404
        assert http.put("/reports/1").status_code == 405
