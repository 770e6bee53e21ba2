"""The list in a real browser: filters, search, Stop in its rows, stopping many; by keyboard and without script."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Enter
from tests.browser.test_pages import mark, not_reloaded, start

TASKS = ".agentstop-task"
SMALL = "each => each.filter(e => e.getBoundingClientRect().height < 24).map(e => e.textContent)"


def listed(page: Page, title: str) -> Any:
    return page.locator(TASKS).filter(has_text=title)


def tab_to(page: Page, name: str) -> None:
    """Go on with Tab until something of this name has the focus."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent.trim()").startswith(name):
            return
    raise AssertionError(f"{name} is not reached by keyboard")


def test_a_row_is_stopped_where_it_stands_and_the_list_stays_as_it_was_asked_for(enter: Enter) -> None:
    ann = enter("ann")
    start(ann, "Stopped in its row", pace="30")
    ann.goto("/?show=active&q=in+its+row")
    listed(ann, "Stopped in its row").get_by_role("button", name="Stop").click()
    expect(ann).to_have_url(re.compile(r"/\?show=active&q=in\+its\+row$"))
    expect(ann.locator(".agentstop-list")).to_contain_text("No task fits here now.")
    ann.get_by_role("link", name="Stopped", exact=True).click()
    expect(listed(ann, "Stopped in its row")).to_contain_text("stopped by ann")


def test_a_button_without_use_goes_with_the_focus_and_not_before(enter: Enter) -> None:
    ann, other = enter("ann"), enter("ann")
    address = start(other, "Focused in its row", pace="30")
    ann.goto("/?q=Focused")
    expect(ann.locator("[data-agentstop][data-live=on]")).to_be_visible()
    button = listed(ann, "Focused in its row").get_by_role("button", name="Stop")
    button.focus()
    mark(ann)
    other.goto(address)
    other.locator(".agentstop-stop").click()
    expect(listed(ann, "Focused in its row")).to_contain_text("stopped by ann")
    assert ann.evaluate("document.activeElement.classList.contains('agentstop-stop-one')")
    expect(button).to_be_visible()
    ann.keyboard.press("Enter")
    ann.keyboard.press("Tab")
    expect(button).to_be_hidden()
    assert not_reloaded(ann)


def test_the_list_is_searched_and_filtered_by_links_and_forms_without_javascript(enter: Enter) -> None:
    ann = enter("ann", java_script_enabled=False)
    start(ann, "Found without script", pace="30")
    ann.goto("/")
    ann.get_by_label("Search in titles").fill("found WITHOUT")
    ann.get_by_role("button", name="Search").click()
    expect(ann.locator(TASKS)).to_have_count(1)
    ann.get_by_role("link", name="Finished", exact=True).click()
    expect(ann.locator(".agentstop-list")).to_contain_text("No task fits here now.")
    expect(ann.get_by_label("Search in titles")).to_have_value("found WITHOUT")
    ann.get_by_role("link", name="Running", exact=True).click()
    ann.get_by_role("button", name="Stop").click()
    ann.get_by_role("link", name="Stopped", exact=True).click()
    expect(listed(ann, "Found without script")).to_contain_text("stopped by ann")


def test_all_that_a_filter_shows_is_stopped_without_javascript(enter: Enter) -> None:
    ann = enter("ann", java_script_enabled=False)
    for number in (1, 2):
        start(ann, f"One of many {number}", pace="30")
    start(ann, "Left alone", pace="30")
    ann.goto("/?q=one+of+many")
    ann.get_by_role("link", name="Stop all that fit here…").click()
    expect(ann.locator(".agentstop-consequences")).to_contain_text("2 tasks will be stopped.")
    ann.get_by_label("Reason (optional)").fill("all of these")
    ann.get_by_role("button", name="Stop 2 tasks").click()
    expect(ann.locator(".agentstop-became > li")).to_have_count(2)
    expect(ann.get_by_role("status")).to_have_text("2 tasks stopped")
    ann.get_by_role("link", name="Back to the tasks").click()
    expect(ann.locator(TASKS)).to_have_count(2)
    ann.goto("/?q=left+alone&show=active")
    expect(ann.locator(TASKS)).to_have_count(1)


def test_everything_of_mine_is_stopped_by_keyboard_alone(enter: Enter) -> None:
    ben = enter("ben")
    for number in (1, 2, 3):
        start(ben, f"Of ben {number}", pace="30")
    ben.goto("/")
    tab_to(ben, "Stop everything of mine")
    ben.keyboard.press("Enter")
    expect(ben.get_by_role("heading", level=1)).to_have_text("Stop everything of yours?")
    tab_to(ben, "Stop 3 tasks")
    assert ben.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid", "the focus is not seen"
    ben.keyboard.press("Enter")
    expect(ben.get_by_role("status")).to_have_text("3 tasks stopped")
    ben.goto("/?show=active")
    expect(ben.locator(".agentstop-list")).to_contain_text("No task fits here now.")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_list_and_question_fit_a_narrow_phone(enter: Enter, scheme: str) -> None:
    ann = enter("ann", viewport={"width": 320, "height": 640}, color_scheme=scheme)
    start(ann, "On a phone " + "withaverylongwordinitstitle" * 3, pace="30")
    for address in ("/?show=active", "/tasks/?q=phone", "/tasks/stop/?mine=1"):
        ann.goto(address)
        assert ann.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), address
        assert ann.locator(".agentstop a:visible, .agentstop button:visible").evaluate_all(SMALL) == [], address
