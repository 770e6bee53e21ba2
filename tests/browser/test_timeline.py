"""R39: the timeline in a real browser: narrow, dark, by keyboard, without script, and as a file of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Enter
from tests.browser.stored import stored
from tests.demo_process import Demo


@pytest.fixture(scope="module")
def address(site: Demo) -> Iterator[str]:
    yield f"/tasks/{stored(site, 'incident')}/timeline/"


BOXES = "each => each.map(e => e.getBoundingClientRect()).map(({x, right}) => ({x, right}))"


def boxes(page: Page, selector: str) -> list[dict[str, float]]:
    found: list[dict[str, float]] = page.locator(selector).evaluate_all(BOXES)
    return found


def background(page: Page) -> str:
    return str(page.locator(".agentstop-paper").evaluate("e => getComputedStyle(e).fill"))


def test_the_task_leads_to_its_timeline_and_back(enter: Enter, address: str) -> None:
    ann = enter("ann")
    ann.goto(address.removesuffix("timeline/"))
    ann.get_by_role("link", name="Timeline", exact=True).click()
    expect(ann.get_by_role("heading", level=1)).to_have_text("Timeline: Quarterly report for the board")
    ann.get_by_role("link", name="To the task").click()
    expect(ann).to_have_url(re.compile(address.removesuffix("timeline/") + "$"))


def test_a_screen_reader_gets_one_picture_with_its_words_and_the_table(enter: Enter, address: str) -> None:
    ann = enter("ann")
    ann.goto(address)
    picture = ann.get_by_role("img")
    expect(picture).to_have_count(1)
    expect(picture).to_have_accessible_name(re.compile("Timeline of Quarterly report for the board. Stopped."))
    ann.get_by_text("The same as a table").click()
    expect(ann.get_by_role("row").filter(has_text="Stopped by ann.").first).to_be_visible()
    expect(ann.get_by_role("row").filter(has_text="As it is now: unknown outcome.")).to_be_visible()


def test_every_mark_is_drawn_within_the_lanes_and_the_stop_is_one_line_through_all(enter: Enter, address: str) -> None:
    ann = enter("ann", viewport={"width": 1280, "height": 900})
    ann.goto(address)
    [paper], marks = boxes(ann, ".agentstop-paper"), boxes(ann, "path[data-kind]")
    assert len(marks) > 50
    assert all(paper["x"] <= mark["x"] and mark["right"] <= paper["right"] for mark in marks)
    [line] = boxes(ann, ".agentstop-stop-line")
    sent = boxes(ann, "g:has(> title) > path[data-kind=passed]")
    assert len(sent) == 11
    assert all(mark["right"] <= line["x"] + 3 for mark in sent), "one seems to have left after the stop"
    refused = boxes(ann, "g:has(> title) > path[data-kind=refused]")
    assert refused[0]["x"] > line["x"] - 1


def test_words_of_a_lane_do_not_run_into_the_time(enter: Enter, address: str) -> None:
    ann = enter("ann", viewport={"width": 1280, "height": 900})
    ann.goto(address)
    names, axis = boxes(ann, ".agentstop-timeline svg text"), boxes(ann, ".agentstop-axis")[0]
    assert names and all(name["right"] <= axis["x"] for name in names)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_narrow_phone_and_is_as_light_as_the_page(enter: Enter, address: str, scheme: str) -> None:
    ann = enter("ann", viewport={"width": 320, "height": 640}, color_scheme=scheme)
    ann.goto(address)
    ann.get_by_text("The same as a table").click()
    assert ann.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert ann.locator(".agentstop-scroll").first.evaluate("e => e.scrollWidth > e.clientWidth")
    assert background(ann) == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(23, 28, 32)")


def test_the_picture_is_scrolled_and_the_table_opened_by_keyboard(enter: Enter, address: str) -> None:
    ann = enter("ann", viewport={"width": 320, "height": 640})
    ann.goto(address)
    scroll = ann.locator(".agentstop-scroll").first
    for _ in range(30):
        ann.keyboard.press("Tab")
        if scroll.evaluate("e => e === document.activeElement"):
            break
    scroll.evaluate("e => { window.scrolled = new Promise(done => e.addEventListener('scroll', done)); }")
    ann.keyboard.press("ArrowRight")
    ann.evaluate("scrolled.then(() => true)")
    ann.locator("summary", has_text="The same as a table").focus()
    ann.keyboard.press("Enter")
    expect(ann.get_by_role("table")).to_be_visible()


def test_it_works_without_javascript(enter: Enter, address: str) -> None:
    ann = enter("ann", java_script_enabled=False)
    ann.goto(address)
    ann.get_by_text("The same as a table").click()
    expect(ann.get_by_role("table")).to_contain_text("It passed the gate: attempt 1.")


@pytest.mark.parametrize(("scheme", "paper"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(21, 25, 29)")])
def test_the_file_is_the_picture_with_nothing_from_elsewhere_in_the_colours_of_who_looks(
    enter: Enter, address: str, chrome: Browser, tmp_path: Path, scheme: Any, paper: str
) -> None:
    ann = enter("ann")
    ann.goto(address)
    with ann.expect_download() as downloaded:
        ann.get_by_role("link", name="Download the picture").click()
    assert downloaded.value.suggested_filename.endswith("-timeline.svg")
    downloaded.value.save_as(tmp_path / "timeline.svg")
    context = chrome.new_context(color_scheme=scheme, offline=True)
    page, asked = context.new_page(), []
    page.on("request", lambda request: asked.append(request.url))
    page.set_content((tmp_path / "timeline.svg").read_text())
    assert background(page) == paper
    marks, [sheet] = boxes(page, "path[data-kind]"), boxes(page, ".agentstop-paper")
    assert len(marks) > 50 and all(sheet["x"] <= mark["x"] < mark["right"] <= sheet["right"] for mark in marks)
    page.emulate_media(media="print", color_scheme=scheme)
    assert background(page) == "rgb(255, 255, 255)"
    assert asked == []
    context.close()


def test_on_paper_it_is_whole_and_light(enter: Enter, address: str) -> None:
    ann = enter("ann", color_scheme="dark", viewport={"width": 760, "height": 900})
    ann.goto(address)
    ann.emulate_media(media="print", color_scheme="light")
    scroll = ann.locator(".agentstop-scroll").first
    assert scroll.evaluate("e => getComputedStyle(e).overflowX") == "visible"
    assert scroll.evaluate("e => e.firstElementChild.getBoundingClientRect().width <= window.innerWidth")
