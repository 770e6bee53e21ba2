"""What people type, in a real browser: kept while it is typed, emptied once it is kept, held by a stop."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Enter
from tests.browser.test_panel import open_task, stop_button


def add(page: Page, text: str) -> None:
    page.get_by_label("Type for the agent").fill(text)
    page.get_by_role("button", name="Add", exact=True).click()


def row(page: Page, text: str) -> Locator:
    return page.locator(".agentstop-input", has_text=text)


def button(page: Page, name: str, text: str) -> Locator:
    return row(page, text).get_by_role("button", name=re.compile(f"^{name}"))


def test_follow_ups_wait_are_held_by_the_stop_and_go_on_when_they_are_released(enter: Enter) -> None:
    """R10."""
    ann = enter("ann")
    open_task(ann, "Follow-ups")
    other = ann.context.new_page()
    other.goto(ann.url)
    for text in ("also in French", "and shorter"):
        add(ann, text)
        expect(row(ann, text)).to_contain_text("waiting, not sent yet")
        expect(ann.get_by_label("Type for the agent")).to_have_value("")
    expect(other.locator(".agentstop-input")).to_have_count(2)
    ann.get_by_label("Type for the agent").fill("half a sen")
    stop_button(other).click()
    held = row(ann, "held, never sent")
    expect(held).to_have_count(2)
    expect(ann.get_by_label("Type for the agent")).to_have_value("half a sen")
    add(ann, "for the next run")
    expect(row(ann, "for the next run")).to_contain_text("The next run gets it.")
    release = button(ann, "Release", "also in French")
    release.focus()
    ann.keyboard.press("Enter")
    expect(row(ann, "also in French")).to_contain_text("Released by ann.")
    assert ann.evaluate("document.activeElement.textContent").startswith("Release")
    expect(row(other, "held, never sent")).to_have_count(1)
    ann.get_by_text("Start again", exact=True).first.click()
    ann.get_by_label("Seconds that the agent thinks before each step").fill("0")
    ann.get_by_role("button", name="Start again").click()
    expect(ann.locator(".agentstop")).to_contain_text("The agent has finished.")
    for text in ("also in French", "for the next run"):
        expect(row(ann, text)).to_contain_text("Run 2 had it")
        expect(ann.locator(".agentstop-operation", has_text=text)).to_contain_text("completed")
    expect(row(ann, "and shorter")).to_contain_text("held, never sent")


def test_typing_releasing_and_withdrawing_work_without_javascript(enter: Enter) -> None:
    """R38."""
    ann = enter("ann", java_script_enabled=False)
    ann.goto("/")
    ann.get_by_label("What should it be about?").fill("No script")
    ann.get_by_label("Seconds that the agent thinks before each step").fill("30")
    ann.get_by_role("button", name="Start", exact=True).click()
    for text in ("one", "two"):
        add(ann, text)
        expect(row(ann, text)).to_be_visible()
    stop_button(ann).click()
    expect(row(ann, "held, never sent")).to_have_count(2)
    button(ann, "Withdraw", "one").click()
    button(ann, "Release", "two").click()
    expect(row(ann, "one")).to_contain_text("withdrawn, never sent")
    expect(row(ann, "two")).to_contain_text("Released by ann.")


def test_what_is_typed_stays_in_the_field_where_it_was_not_kept(enter: Enter, complaints: list[str]) -> None:
    ann = enter("ann")
    open_task(ann, "Lost")
    ann.route("**/input/", lambda route: route.fulfill(status=500, body="broken"))
    add(ann, "a long thought")
    expect(ann.get_by_role("alert").filter(has_text="That press may not have arrived")).to_be_visible()
    expect(ann.get_by_label("Type for the agent")).to_have_value("a long thought")
    ann.unroute("**/input/")
    ann.get_by_role("button", name="Add", exact=True).click()
    expect(row(ann, "a long thought")).to_contain_text("waiting, not sent yet")
    expect(ann.get_by_label("Type for the agent")).to_have_value("")
    complaints.clear()  # of the answer that was made up
