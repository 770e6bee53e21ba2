"""The demo in a real browser: the truth in every window without reload, with keyboard, without script, on a phone."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Enter

SLOW = "takes 15 seconds"
GOES_ON = "acknowledges the cancel and completes all the same"


def start(page: Page, topic: str, *troubles: str, pace: str = "0", kind: str = "") -> str:
    """Start a task by the form; the address of its page."""
    page.goto("/")
    if kind:
        page.get_by_label(kind).check()
    page.get_by_label("What should it be about?").fill(topic)
    page.get_by_label("Seconds that the agent thinks before each step").fill(pace)
    if troubles:
        page.get_by_text("Make the provider misbehave").click()
        for trouble in troubles:
            page.get_by_label(trouble).check()
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.get_by_role("heading", name=topic).first).to_be_visible()
    return page.url


def panel(page: Page) -> Any:
    return page.locator(".agentstop")


def row(page: Page, action: str) -> Any:
    return page.locator(".agentstop-operation").filter(has_text=action)


def mark(page: Page) -> None:
    """A reload would lose this."""
    page.evaluate("window.notReloaded = true")


def not_reloaded(page: Page) -> bool:
    return bool(page.evaluate("window.notReloaded === true"))


def stop_button(page: Page) -> Any:
    return panel(page).get_by_role("button", name="Stop", exact=True)


def test_a_stop_in_one_window_is_the_truth_in_both_without_reload(enter: Enter) -> None:
    ann, olga = enter("ann"), enter("olga")
    olga.goto(start(ann, "Two windows", SLOW))
    for page in (ann, olga):
        mark(page)
        expect(row(page, "report.create")).to_contain_text("in progress")
    stop_button(olga).click()
    for page in (ann, olga):
        expect(panel(page)).to_contain_text("Stopped by olga")
        expect(panel(page)).to_contain_text("The agent has halted.")
        expect(row(page, "report.create")).to_contain_text("cancelled")
        expect(row(page, "file.upload")).to_contain_text("not sent")
        assert not_reloaded(page)


def test_what_goes_on_after_the_stop_is_shown_until_its_end(enter: Enter) -> None:
    ann = enter("ann")
    start(ann, "Goes on", SLOW, GOES_ON)
    mark(ann)
    expect(row(ann, "report.create")).to_contain_text("in progress")
    stop_button(ann).click()
    expect(row(ann, "report.create")).to_contain_text("still active")
    expect(row(ann, "report.create")).to_contain_text("Cancel acknowledged, not confirmed")
    expect(row(ann, "report.create")).to_contain_text("completed before cancellation")
    assert not_reloaded(ann)


def test_stop_works_without_javascript(enter: Enter) -> None:
    ann = enter("ann", java_script_enabled=False)
    start(ann, "Without script", pace="30")
    stop_button(ann).click()
    expect(panel(ann)).to_contain_text("Stopped by ann")
    expect(panel(ann)).to_contain_text("Not live")


def test_stop_is_reached_and_pressed_by_keyboard_and_typed_text_stays(enter: Enter) -> None:
    ann = enter("ann")
    start(ann, "By keyboard", pace="2")
    expect(panel(ann)).to_contain_text("The agent is running.")
    for _ in range(30):
        ann.keyboard.press("Tab")
        if ann.evaluate("document.activeElement.classList.contains('agentstop-stop')"):
            break
    ann.keyboard.press("Tab")
    ann.keyboard.type("enough for today")
    expect(row(ann, "report.create")).to_contain_text("in progress")  # frames came while the text was there
    ann.keyboard.press("Shift+Tab")
    ann.keyboard.press("Enter")
    expect(panel(ann)).to_contain_text("Stopped by ann")
    expect(panel(ann)).to_contain_text("enough for today")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_a_narrow_phone(enter: Enter, complaints: list[str], scheme: str) -> None:
    ann = enter("ann", viewport={"width": 320, "height": 640}, color_scheme=scheme)
    task = start(ann, "On a phone " + "with a very long title " * 3)
    for address in ("/", task, "/nothing/"):
        ann.goto(address)
        assert ann.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), address
    assert "/nothing/: Failed to load resource" in complaints.pop()


def test_the_ledger_beside_the_page_tells_what_really_happened(enter: Enter) -> None:
    ann = enter("ann")
    start(ann, "Compare me")
    expect(panel(ann).locator("[data-state=finished]")).to_be_visible()
    with ann.expect_popup() as opened:
        ann.get_by_role("link", name="The provider's ledger of this task").click()
    expect(opened.value.locator("caption")).to_contain_text("3 effects")


def test_what_was_made_is_one_click_away(enter: Enter) -> None:
    ann = enter("ann")
    start(ann, "Follow me")
    expect(panel(ann).locator("[data-state=finished]")).to_be_visible()
    row(ann, "report.create").get_by_role("link", name="See what was made").click()
    expect(ann.locator("body")).to_contain_text("Follow me")


def test_a_task_is_started_again_and_nothing_is_done_twice(enter: Enter) -> None:
    ann = enter("ann")
    start(ann, "Once only")
    expect(panel(ann).locator("[data-state=finished]")).to_be_visible()
    ann.get_by_text("Start again", exact=True).first.click()
    ann.get_by_role("button", name="Start again").click()
    expect(panel(ann).locator("[data-state=finished]")).to_be_visible()
    expect(ann.locator(".agentstop-operation")).to_have_count(3)


def test_strangers_find_nothing(enter: Enter, complaints: list[str]) -> None:
    ann, ben = enter("ann"), enter("ben")
    address = start(ann, "Not for ben", pace="5")
    answer = ben.goto(address)
    assert answer is not None and answer.status == 404
    assert (
        complaints.pop() == f"{address}: Failed to load resource: the server responded with a status of 404 (Not Found)"
    )


def test_the_operator_stops_from_the_admin_and_the_owner_reads_it_at_once(enter: Enter) -> None:
    ann, olga = enter("ann"), enter("olga")
    start(ann, "Stopped from the admin", pace="30")
    olga.goto("/admin/agentstop/task/")
    olga.get_by_role("row").filter(has_text="Stopped from the admin").get_by_role("checkbox").check()
    olga.get_by_label("Action:").select_option(label="Stop selected tasks")
    olga.get_by_role("button", name="Go").click()
    olga.get_by_role("button", name="Stop").click()
    expect(panel(ann)).to_contain_text("Stopped by olga")


def test_the_list_keeps_itself_up_to_date(enter: Enter) -> None:
    ann, other = enter("ann"), enter("ann")
    address = start(ann, "In the list", pace="30")
    other.goto("/")
    mark(other)
    listed = other.locator(".agentstop-task").filter(has_text="In the list")
    expect(listed).to_contain_text("3 waiting")
    stop_button(ann).click()
    expect(listed).to_contain_text("stopped by ann")
    assert not_reloaded(other)
    listed.get_by_role("link").click()
    expect(other).to_have_url(address)
