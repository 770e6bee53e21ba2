"""A real Chromium on the running demo."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

from tests.demo_process import Demo, demo
from tests.everything import chromium

ARGUMENTS = [
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
HANG_GUARD = 60_000  # ms

Enter = Callable[..., Page]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """The demo, in a folder of its own."""
    with demo(tmp_path_factory.mktemp("demo")) as running:
        yield running


@pytest.fixture(scope="module")
def chrome() -> Iterator[Browser]:
    """For one module: Playwright's loop, while it runs in this thread, keeps Django's queries out of it."""
    program = chromium()
    if program is None:
        pytest.fail("There is no Chromium: apt-get install chromium, or name one in the variable CHROMIUM.")
    root = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=[*ARGUMENTS, *root])
        yield browser
        browser.close()


@pytest.fixture
def complaints() -> list[str]:
    """What the browser complained of on any page: blocked by the policy, failed to load, thrown by a script."""
    return []


def complaint(told: ConsoleMessage, address: str) -> list[str]:
    """What is said of this site's pages; the provider's are its own."""
    place = told.location["url"]
    return [f"{place}: {told.text}"] if told.type == "error" and not _elsewhere(place, address) else []


def _elsewhere(place: str, address: str) -> bool:
    return place.startswith("http") and not place.startswith(address)


@pytest.fixture
def enter(site: Demo, chrome: Browser, complaints: list[str]) -> Iterator[Enter]:
    """Logs somebody in, in a window of their own; options are those of a browser context."""
    expect.set_options(timeout=HANG_GUARD)
    contexts: list[BrowserContext] = []

    def log_in(name: str, **options: object) -> Page:
        context = chrome.new_context(base_url=site.address, **options)  # type: ignore[arg-type]
        context.set_default_timeout(HANG_GUARD)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda told: complaints.extend(complaint(told, site.address)))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto("/login/")
        page.locator("[name=username]").fill(name)  # not by labels: the reader may be German
        page.locator("[name=password]").fill(site.people[name])
        page.locator("button.main").click()
        expect(page.locator(".agentstop-list")).to_be_visible()
        return page

    yield log_in
    for context in contexts:
        context.close()
    assert complaints == []
