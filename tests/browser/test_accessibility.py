"""R38: axe finds nothing on any page, in light and dark; and it would find something."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import violations
from tests.browser.conftest import Enter
from tests.browser.stored import stored
from tests.browser.test_pages import GOES_ON, SLOW, panel, row, start, stop_button
from tests.demo_process import Demo

SCHEMES = pytest.mark.parametrize("scheme", ["light", "dark"])


@pytest.fixture(scope="module")
def task(site: Demo) -> Iterator[int]:
    """A stopped task with operations in every state, among others."""
    yield stored(site, "several")


def check(page: Page, address: str = "") -> None:
    if address:
        page.goto(address)
    assert violations(page) == [], page.url


@SCHEMES
def test_the_list_and_what_asks_before_many_are_stopped(enter: Enter, task: int, scheme: str) -> None:
    ann = enter("ann", color_scheme=scheme)
    check(ann)
    for query in ("?show=stopped", "?show=unknown&q=report", "?q=nothing", "?before=1"):
        check(ann, f"/{query}")
        check(ann, f"/tasks/{query}")
    check(ann, "/tasks/stop/?mine=1")
    check(ann, "/tasks/stop/?q=nothing")


@SCHEMES
def test_the_timeline_and_its_table(enter: Enter, task: int, scheme: str) -> None:
    ann = enter("ann", color_scheme=scheme)
    check(ann, f"/tasks/{task}/timeline/")
    ann.get_by_text("The same as a table").click()
    check(ann)


@SCHEMES
def test_the_panel_in_every_state(enter: Enter, task: int, scheme: str) -> None:
    ann = enter("ann", color_scheme=scheme)
    check(ann, f"/tasks/{task}/")
    start(ann, f"Looked at in {scheme}", SLOW, GOES_ON)
    expect(row(ann, "report.create")).to_contain_text("in progress")
    check(ann)
    stop_button(ann).click()
    expect(panel(ann)).to_contain_text("Stopped by ann")
    expect(row(ann, "report.create")).to_contain_text("still active")
    check(ann)


@SCHEMES
def test_pages_that_ask_about_one_operation(enter: Enter, task: int, complaints: list[str], scheme: str) -> None:
    ann = enter("ann", color_scheme=scheme)
    start(ann, f"Undone in {scheme}")
    expect(panel(ann).locator("[data-state=finished]")).to_be_visible()
    check(ann)
    row(ann, "report.create").get_by_role("button", name="Undo").click()
    expect(ann.get_by_role("heading", name="Undo this?")).to_be_visible()
    check(ann)
    ann.goto(f"/tasks/{task}/")
    row(ann, "mail.send").get_by_role("button", name="Settle by hand").click()
    expect(ann.get_by_role("heading", name="What became of it?")).to_be_visible()
    check(ann)
    ann.get_by_role("button", name="Settle it").click()
    expect(ann.locator(".agentstop-alert").first).to_be_visible()
    check(ann)
    complaints.clear()  # the browser's own words about an answer that asks for more


@SCHEMES
def test_pages_around_them(enter: Enter, complaints: list[str], scheme: str) -> None:
    ann = enter("ann", color_scheme=scheme)
    check(ann, "/nothing/")
    assert "/nothing/: Failed to load resource" in complaints.pop()
    ann.get_by_role("button", name="Log out").click()
    expect(ann.get_by_role("heading", name="Log in")).to_be_visible()
    check(ann)


@SCHEMES
def test_what_became_of_many(enter: Enter, site: Demo, scheme: str) -> None:
    stored(site, "several", "ben")
    ben = enter("ben", color_scheme=scheme)
    ben.goto("/tasks/stop/?mine=1")
    ben.get_by_role("button", name="Stop ").click()
    expect(ben.get_by_role("heading", name="What became of them")).to_be_visible()
    check(ben)


def test_the_admins_question_before_many_are_stopped(enter: Enter, task: int) -> None:
    """What is around it, and the lists, are Django's."""
    olga = enter("olga")
    olga.goto(f"/admin/agentstop/task/stop/?task={task}")
    expect(olga.get_by_role("button", name="Stop")).to_be_visible()
    assert violations(olga, "#content") == []


def test_a_fault_would_be_found(enter: Enter) -> None:
    ann = enter("ann")
    ann.evaluate("document.querySelector('label[for=agentstop-find]').remove()")
    assert any(line.startswith("label:") for line in violations(ann))
