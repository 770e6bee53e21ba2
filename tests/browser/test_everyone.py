"""R38: what is announced and when, by keyboard alone, with less motion, with a system's own colours, and on paper."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import Page, expect

from tests.browser.axe import violations
from tests.browser.conftest import Enter
from tests.browser.stored import heard, stored
from tests.browser.test_pages import start
from tests.browser.test_panel import LISTEN, Wire
from tests.demo_process import Demo

LIVE = "[data-agentstop][data-live=on]"
FOCUSABLE = "a[href], button, input:not([type=hidden]), textarea, summary, [tabindex='0']"
ALL = f"""() => [...document.querySelectorAll("main :is({FOCUSABLE})")]
  .filter((each) => each.checkVisibility({{ visibilityProperty: true }}) && !each.disabled)
  .map((each) => each.id || each.textContent.trim())"""
HERE = "document.activeElement.id || document.activeElement.textContent.trim()"
MOVING = """() => [...document.querySelectorAll("*")].map((each) => getComputedStyle(each))
  .filter((style) => style.transitionDuration !== "0s" || style.animationName !== "none").length"""
STOPPED = "Stopped. Nothing new will be sent. "


def announced(page: Page) -> list[str]:
    """What was put into regions that announce, each once however many nodes of it changed at a time."""
    told: list[str] = [text for text in page.evaluate("announced") if text]
    return [text for at, text in enumerate(told) if at == 0 or told[at - 1] != text]


def test_each_change_of_state_is_announced_once_progress_never_and_only_a_failure_as_alert(
    enter: Enter, site: Demo
) -> None:
    """Twenty steps of progress; stopped; unknown; confirmed; failed; cut off and connected again."""
    task = stored(site, "under_way")
    ann, olga = enter("ann"), enter("olga")
    wire = Wire(ann)
    for page in (ann, olga):
        page.goto(f"/tasks/{task}/")
    expect(ann.locator(LIVE)).to_be_visible()
    ann.locator(".agentstop-stop").focus()
    ann.evaluate(LISTEN)
    heard(site, task, "report.create", *[("progress", "provider", step / 20) for step in range(1, 21)])
    expect(ann.locator("progress")).to_have_attribute("value", "1.0")
    assert announced(ann) == []
    olga.locator(".agentstop-stop").click()
    line = ann.locator(".agentstop-line")
    expect(line).to_have_text(STOPPED + "2 still active")
    heard(site, task, "report.create", ("succeeded", "intermediary", ""))
    expect(line).to_have_text(STOPPED + "1 still active · 1 unknown outcome")
    heard(site, task, "report.create", ("cancelled", "read_back", ""))
    expect(line).to_have_text(STOPPED + "1 still active · 1 cancelled")
    heard(site, task, "file.upload", ("failed", "read_back", "disk full"))
    expect(ann.locator("[role=alert]:visible")).to_have_text("Failed: file.upload.")
    expect(line).to_have_text(STOPPED + "1 cancelled · 1 failed")
    told = announced(ann)
    assert sorted(told) == sorted(
        [
            STOPPED + "2 still active",
            STOPPED + "1 still active · 1 unknown outcome",
            STOPPED + "1 still active · 1 cancelled",
            STOPPED + "1 cancelled · 1 failed",
            "Failed: file.upload.",
        ]
    )
    assert ann.evaluate("document.activeElement.classList.contains('agentstop-stop')")
    wire.cut(1012)
    expect(ann.locator("[data-agentstop][data-live=asleep]")).to_be_visible()
    expect(ann.locator(LIVE)).to_be_visible()
    assert announced(ann) == told


def test_everything_is_reached_by_keyboard_stop_first(enter: Enter, site: Demo) -> None:
    task = stored(site, "under_way")
    ann = enter("ann")
    ann.goto(f"/tasks/{task}/")
    expect(ann.locator(LIVE)).to_be_visible()
    wanted: list[str] = ann.evaluate(ALL)
    ann.locator(".skip").focus()
    ann.keyboard.press("Enter")
    reached: list[Any] = []
    for _ in wanted:
        ann.keyboard.press("Tab")
        reached.append(ann.evaluate(HERE))
        assert ann.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid", reached[-1]
    assert reached == wanted
    within = [each for each in reached if each.startswith("agentstop-")]
    assert within[0] == f"agentstop-task-{task}-button"


def test_all_of_it_works_by_forms_and_links_without_javascript(enter: Enter) -> None:
    """Start, pause, resume, stop with a reason, read what was sent, the picture, type, begin again."""
    ann = enter("ann", java_script_enabled=False)
    address = start(ann, "By forms alone", "does the work, and its response is lost", pace="2")
    ann.get_by_role("button", name="Pause").click()
    expect(ann.locator(".agentstop-who")).to_contain_text("Paused")
    ann.get_by_role("button", name="Resume").click()
    expect(ann.locator(".agentstop-who")).to_contain_text("Running")
    ann.get_by_label("Type for the agent").fill("be brief")
    ann.get_by_role("button", name="Add").click()
    expect(ann.locator(".agentstop-inputs")).to_contain_text("be brief")
    ann.get_by_label("Reason (optional)").fill("enough")
    ann.get_by_role("button", name="Stop", exact=True).click()
    expect(ann.locator(".agentstop-who")).to_contain_text("enough")
    ann.get_by_role("link", name="What was sent and heard").first.click()
    expect(ann.get_by_role("heading", name="What was sent and heard")).to_be_visible()
    ann.get_by_role("link", name="To the task").click()
    expect(ann).to_have_url(re.compile(re.escape(address)))
    ann.get_by_role("link", name="Timeline").click()
    expect(ann.locator(".agentstop-timeline")).to_be_visible()
    ann.get_by_text("The same as a table").click()
    expect(ann.locator(".agentstop-facts table")).to_contain_text("Stopped by ann.")
    ann.goto(address)
    ann.get_by_role("button", name="New run").click()
    expect(ann.locator(".agentstop-who")).to_contain_text("Running")
    expect(ann.locator("[role=alert]:visible")).to_have_count(0)


def test_less_motion_is_no_motion(enter: Enter, site: Demo) -> None:
    task = stored(site, "under_way")
    for setting, still in (("reduce", True), ("no-preference", False)):
        ann = enter("ann", reduced_motion=setting)
        ann.goto(f"/tasks/{task}/")
        assert (ann.evaluate(MOVING) == 0) is still, setting


def test_in_a_systems_own_colours_each_state_has_a_sign_and_each_button_an_edge(enter: Enter, site: Demo) -> None:
    task = stored(site, "several")
    ann = enter("ann", forced_colors="active")
    ann.goto(f"/tasks/{task}/")
    signs = ann.locator(".agentstop-label > strong").evaluate_all(
        "each => each.map((one) => getComputedStyle(one, '::before').content)"
    )
    assert len(signs) > 5 and not {"none", "normal", '""'} & set(signs)
    edges = ann.locator(".agentstop button:visible, .agentstop-badge:visible").evaluate_all(
        "each => each.map((one) => getComputedStyle(one).borderTopStyle)"
    )
    assert edges and set(edges) == {"solid"}
    assert violations(ann) == []


def test_on_paper_stands_what_is_known_and_nothing_to_press(enter: Enter, site: Demo) -> None:
    task = stored(site, "several")
    ann = enter("ann")
    ann.goto(f"/tasks/{task}/")
    ann.emulate_media(media="print")
    expect(ann.locator(".agentstop-line")).to_be_visible()
    expect(ann.locator(".agentstop-who")).to_contain_text("Stopped by ann")
    assert ann.locator(".agentstop-label:visible").count() == ann.locator(".agentstop-operation").count() > 5
    for gone in (".agentstop button", ".agentstop-mark", ".agentstop-press", ".site nav", "main aside form"):
        assert ann.locator(f"{gone}:visible").count() == 0, gone
    ago = "getComputedStyle(document.querySelector('time[data-ago]'), '::after').content"
    assert ann.evaluate(ago) == "none"
