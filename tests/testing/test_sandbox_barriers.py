"""Tests hold requests at named points of their way."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import httpx
import pytest

from agentstop.testing.sandbox.client import SandboxClient, SandboxError
from agentstop.testing.sandbox.holds import HeldTooLong, Holds
from tests.testing.requests import GUARD, create, status


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


def test_a_request_that_nobody_releases_fails_and_so_does_its_release(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        holds = Holds()
        holds.add("effect", "k")
        with pytest.raises(HeldTooLong, match="held at effect"):
            await holds.pass_point("effect", {"key": "k"})
        with pytest.raises(HeldTooLong, match="has failed"):
            holds.release("effect", "k")

    monkeypatch.setattr("agentstop.testing.sandbox.holds.LIMIT", 0.01)
    asyncio.run(story())
