"""The sandbox provider: what it accepts, once for each key; how it can be held; how it misbehaves when asked to."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentstop.providers.base import Answer, CancelReply, Context, Submission
from agentstop.providers.http import HttpProvider
from agentstop.states import Claim
from agentstop.testing.sandbox.client import SandboxClient, SandboxError
from agentstop.testing.sandbox.connector import sandbox_connector, sandbox_options
from agentstop.testing.sandbox.process import ROOT, RunningSandbox, running_sandbox

GUARD = 30.0


@pytest.fixture(scope="module")
def process() -> Iterator[RunningSandbox]:
    with running_sandbox() as sandbox:
        yield sandbox


@pytest.fixture
def client(process: RunningSandbox) -> SandboxClient:
    process.client.reset()
    return process.client


@pytest.fixture
def http(client: SandboxClient) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=client.address, timeout=GUARD, trust_env=False) as http:
        yield http


@pytest.fixture
def background() -> Iterator[Callable[..., Future[Any]]]:
    """Starts a call in a thread; whoever asks its future for the result gets its error, too."""
    with ThreadPoolExecutor(8) as pool:
        yield pool.submit


def create(http: httpx.Client, kind: str = "report", key: str = "k", **body: Any) -> httpx.Response:
    return http.post(f"/{kind}s", json=body, headers={"Idempotency-Key": key} if key else {})


def status(http: httpx.Client, key: str = "k") -> Any:
    return http.get(f"/operations/{key}").json().get("status")


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


class TestBarriers:
    @pytest.mark.parametrize(
        ("point", "state", "writes"), [("received", None, 0), ("accepted", "running", 0), ("effect", "succeeded", 1)]
    )
    def test_a_request_is_held_at_each_point_of_its_way(
        self,
        http: httpx.Client,
        client: SandboxClient,
        background: Callable[..., Future[Any]],
        point: str,
        state: str | None,
        writes: int,
    ) -> None:
        client.hold(point, "k")
        created = background(create, http, "upload", seconds=0, label="task", text="x")
        assert client.wait(point, "k") == [{"key": "k", "label": "task", "text": "x"}]
        assert status(http) == state
        assert client.counts("k")["writes"] == writes
        assert not created.done()
        assert client.release(point, "k") == 1
        assert created.result(GUARD).status_code == 201

    def test_a_cancel_request_is_held_before_it_does_anything(
        self, http: httpx.Client, client: SandboxClient, background: Callable[..., Future[Any]]
    ) -> None:
        create(http, seconds=60)
        client.hold("cancel")
        cancel = background(http.delete, "/operations/k")
        client.wait("cancel")
        assert status(http) == "running"
        client.release("cancel")
        assert cancel.result(GUARD).json()["status"] == "cancelled"

    def test_only_what_matches_is_held(
        self, http: httpx.Client, client: SandboxClient, background: Callable[..., Future[Any]]
    ) -> None:
        client.hold("accepted", "mine")
        held = [background(create, http, "upload", f"k{n}", label="mine", seconds=0) for n in range(2)]
        assert len(client.wait("accepted", "mine", count=2)) == 2
        assert create(http, "upload", "other", label="yours").status_code == 201
        assert client.release("accepted", "mine") == 2
        assert [future.result(GUARD).status_code for future in held] == [201, 201]

    def test_a_client_that_leaves_does_not_take_its_request_along(
        self, http: httpx.Client, client: SandboxClient
    ) -> None:
        client.hold("received")
        with socket.create_connection(httpx.URL(client.address).netloc.decode().split(":")) as left:  # type: ignore[arg-type]
            left.sendall(
                b"POST /notifications HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                b"Idempotency-Key: k\r\nContent-Length: 2\r\n\r\n{}"
            )
            client.wait("received")
        client.hold("effect")
        client.release("received")
        client.wait("effect")
        assert client.counts("k")["writes"] == 1

    def test_waiting_for_nobody_ends_with_a_sentence(self, client: SandboxClient) -> None:
        client.hold("received")
        with pytest.raises(SandboxError, match="nobody came in time"):
            client.wait("received", seconds=0.05)

    def test_a_mistake_in_a_test_is_told(self, client: SandboxClient) -> None:
        for verb, point, match, sentence in (
            (client.hold, "nowhere", "*", "use one of received"),
            (client.hold, "received", "", "empty name"),
            (client.wait, "received", "*", "hold first"),
            (client.release, "received", "*", "hold first"),
        ):
            with pytest.raises(SandboxError, match=sentence):
                verb(point, match)
        client.hold("effect")
        with pytest.raises(SandboxError, match="already held"):
            client.hold("effect")


class TestPage:
    def test_it_shows_what_happened_without_script_or_inline_style(self, http: httpx.Client) -> None:
        create(http, "notification", text="<script>alert(1)</script>", label="task 1")
        page = http.get("/")
        assert "&lt;script&gt;alert(1)" in page.text
        assert "<script" not in page.text
        assert "style=" not in page.text
        assert page.headers["content-security-policy"].startswith("default-src 'none'; style-src 'self'")
        assert http.get("/ledger.css").headers["content-type"].startswith("text/css")

    def test_it_can_be_narrowed_to_a_task_or_to_keys(self, http: httpx.Client) -> None:
        for key, label in (("k1", "one"), ("k2", "two"), ("k3", "two")):
            create(http, "notification", key, label=label)
        assert "2 effects of the task two" in http.get("/", params={"task": "two"}).text
        assert "No effect was accepted." in http.get("/", params={"task": "three"}).text
        told = http.get("/ledger", params={"keys": "k1,k3"}).json()
        assert [effect["key"] for effect in told["effects"]] == ["k1", "k3"]


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


class TestProcess:
    def test_its_ledger_survives_a_kill_and_work_goes_on_after_it(self, tmp_path: Path) -> None:
        ledger = tmp_path / "ledger.sqlite3"
        with running_sandbox(ledger=ledger) as first, httpx.Client(base_url=first.address) as http:
            first.client.hold("working")
            create(http, "report", "kept", seconds=0)
            os.kill(first.pid, signal.SIGKILL)
        with running_sandbox(ledger=ledger) as second, httpx.Client(base_url=second.address) as http:
            assert create(http, "report", "kept", seconds=0).json()["ref"] == "/reports/1"
            assert second.client.settled("kept")[0]["status"] == "succeeded"

    def test_a_taken_port_is_one_sentence(self, tmp_path: Path) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            ended = start(["--port", str(taken.getsockname()[1]), "--ledger", str(tmp_path / "l.sqlite3")])
        assert ended.returncode == 1
        assert "The sandbox cannot listen" in ended.stderr
        assert "Traceback" not in ended.stderr

    def test_a_ledger_that_cannot_be_opened_is_one_sentence(self, tmp_path: Path) -> None:
        ended = start(["--ledger", str(tmp_path / "no" / "such" / "folder")])
        assert ended.returncode == 1
        assert ended.stderr.count("\n") == 1

    def test_it_ends_with_its_parent_when_asked_to(self, tmp_path: Path) -> None:
        child = [sys.executable, "-m", "agentstop.testing.sandbox", "--exit-with-parent"]
        child += ["--ledger", str(tmp_path / "l.sqlite3")]
        # The parent hands on the ready line and ends; the pipe ends when the last process that holds it has ended.
        parent = (
            "import subprocess, sys; p = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True);"
            "sys.stdout.write(p.stdout.readline()); sys.stdout.flush(); import os; os._exit(0)"
        )
        ended = subprocess.run(
            [sys.executable, "-c", parent, *child],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=GUARD,
            check=True,
        )
        address = ended.stdout.removeprefix("sandbox ready ").strip()
        with pytest.raises(httpx.ConnectError):
            httpx.get(address, trust_env=False)


class TestConnector:
    """The same through `HttpProvider`, as the connector describes the sandbox."""

    def test_its_entry_for_the_settings_makes_a_provider(self, client: SandboxClient) -> None:
        entry = sandbox_connector(client.address)
        assert entry["PROVIDER"] == f"{HttpProvider.__module__}.{HttpProvider.__name__}"
        assert HttpProvider(**entry["OPTIONS"]).capability("report.create").cancellable

    def test_a_report_is_created_looked_up_and_cancelled(self, client: SandboxClient) -> None:
        async def story(provider: HttpProvider) -> tuple[Answer, Answer | None, CancelReply, Answer | None]:
            submitted = await provider.submit(report(seconds=60), freely())
            running = await provider.look_up(report(), deadline=GUARD)
            reply = await provider.cancel(report(ref=submitted.ref), deadline=GUARD)
            return submitted, running, reply, await provider.look_up(report(), deadline=GUARD)

        submitted, running, reply, after = run(client, story)
        assert running is not None
        assert after is not None
        assert reply.answer is not None
        assert [answer.claim for answer in (submitted, running, reply.answer, after)] == [
            Claim.ACCEPTED,
            Claim.RUNNING,
            Claim.CANCELLED,
            Claim.CANCELLED,
        ]
        assert {answer.ref for answer in (submitted, running, reply.answer, after)} == {client.effects("k")[0]["ref"]}
        assert after.at is not None

    def test_what_never_arrived_is_not_found_with_authority(self, client: SandboxClient) -> None:
        async def story(provider: HttpProvider) -> Answer | None:
            return await provider.look_up(report(), deadline=GUARD)

        answer = run(client, story)
        assert answer is not None
        assert (answer.claim, answer.authoritative) == (Claim.NOT_FOUND, True)

    @pytest.mark.parametrize("switch", ["drop", "lose_response"])
    def test_a_lost_answer_is_found_again_by_its_key(self, client: SandboxClient, switch: str) -> None:
        async def story(provider: HttpProvider) -> tuple[Answer, Answer | None]:
            lost = await provider.submit(report(seconds=60 * (switch == "drop"), sandbox={switch: True}), freely())
            return lost, await provider.look_up(report(), deadline=GUARD)

        lost, found = run(client, story)
        assert found is not None
        assert (lost.claim, lost.ref, found.ref) == (Claim.LOST, "", client.effects("k")[0]["ref"])
        assert found.claim is (Claim.RUNNING if switch == "drop" else Claim.SUCCEEDED)
        assert client.counts("k")["submits"] == 1

    def test_a_failed_upload_is_failed(self, client: SandboxClient) -> None:
        async def story(provider: HttpProvider) -> Answer:
            return await provider.submit(report("file.upload", seconds=0, sandbox={"fail": True}), freely())

        assert run(client, story).claim is Claim.FAILED

    def test_a_blind_notification_sent_twice_has_two_effects(self, client: SandboxClient) -> None:
        async def story(provider: HttpProvider) -> None:
            for _ in range(2):
                await provider.submit(report("notify.blind", label="blind"), freely())

        run(client, story)
        assert client.writes(task="blind") == 2


def report(action: str = "report.create", ref: str = "", **args: Any) -> Submission:
    return Submission(operation=1, action=action, args=args, idempotency_key="k", ref=ref)


def freely() -> Context:
    return Context(before_write=lambda: None, deadline=GUARD)


def run(client: SandboxClient, story: Callable[[HttpProvider], Any]) -> Any:
    async def told() -> Any:
        provider = HttpProvider(**sandbox_options(client.address))
        try:
            return await story(provider)
        finally:
            await provider.aclose()

    return asyncio.run(told())


def start(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "agentstop.testing.sandbox", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=GUARD,
        check=False,
    )
