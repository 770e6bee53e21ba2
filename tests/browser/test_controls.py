"""Pause, Resume and New run in a real browser: in every window without reload, and by plain forms without scripts."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page, expect

from tests.browser.conftest import Enter
from tests.browser.test_pages import mark, not_reloaded, panel, row, start, stop_button

AGO = "[...document.querySelectorAll('time[data-ago]')].map((each) => each.dataset.ago)"
NOTHING_NEW = "Paused. Nothing new will be sent until it is resumed."


def button(page: Page, name: str) -> Any:
    return panel(page).get_by_role("button", name=name, exact=True)


def works(page: Page, name: str) -> bool:
    """Whether a press does something now; one that does not stays where it is and says why."""
    return bool(button(page, name).get_attribute("aria-disabled") != "true")


def test_a_pause_is_seen_in_every_window_and_a_resume_lets_the_same_run_go_on(enter: Enter) -> None:
    """R33, R37: also while an operation is under way, which the pause does not touch."""
    ann, other = enter("ann"), enter("ann")
    other.goto(start(ann, "Paused and resumed", "takes 15 seconds"))
    for page in (ann, other):
        mark(page)
        expect(row(page, "report.create")).to_contain_text("in progress")
    assert works(ann, "Pause") and not works(ann, "Resume")
    button(ann, "Pause").click()
    for page in (ann, other):
        expect(panel(page)).to_contain_text(NOTHING_NEW)
        expect(panel(page)).to_contain_text("Paused by ann")
        expect(row(page, "report.create")).to_contain_text("in progress")
    assert works(other, "Resume") and not works(other, "Pause")
    button(other, "Resume").click()
    for page in (ann, other):
        expect(panel(page)).not_to_contain_text(NOTHING_NEW)
        expect(button(page, "Pause")).not_to_have_attribute("aria-disabled", "true")
        assert not_reloaded(page)
    button(ann, "Pause").click()
    expect(panel(ann)).to_contain_text(NOTHING_NEW)
    stop_button(ann).click()
    for page in (ann, other):
        expect(panel(page)).to_contain_text("Stopped by ann")
        expect(button(page, "Resume")).to_have_attribute("aria-disabled", "true")
        assert not_reloaded(page)


def test_a_new_run_is_begun_in_the_panel_after_a_stop(enter: Enter) -> None:
    """R4, R25: by the person, in the page that they look at."""
    ann = enter("ann")
    start(ann, "Begun again", pace="30")
    stop_button(ann).click()
    expect(panel(ann)).to_contain_text("Stopped by ann")
    expect(panel(ann).locator("time[data-ago='now']").first).to_be_attached()
    assert not [ago for ago in ann.evaluate(AGO) if ago.startswith("in ")], "nothing has happened in the future"
    mark(ann)
    button(ann, "New run").click()
    expect(panel(ann).locator("[data-state=active]")).to_be_visible()
    expect(stop_button(ann)).to_be_visible()
    assert not_reloaded(ann)


def test_pause_resume_and_new_run_work_without_scripts(enter: Enter) -> None:
    """R38: each answers by the page as it is then."""
    ann = enter("ann", java_script_enabled=False)
    start(ann, "Controls without scripts", pace="30")
    button(ann, "Pause").click()
    expect(panel(ann)).to_contain_text(NOTHING_NEW)
    button(ann, "Resume").click()
    expect(panel(ann)).not_to_contain_text(NOTHING_NEW)
    stop_button(ann).click()
    expect(panel(ann)).to_contain_text("Stopped by ann")
    button(ann, "New run").click()
    expect(panel(ann).locator("[data-state=active]")).to_be_visible()
