"""Pages that are out of date, and windows that press different things: each press is answered with what is true now."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Enter
from tests.browser.stored import heard, stored
from tests.browser.test_pages import start
from tests.browser.test_panel import Wire
from tests.demo_process import Demo


@pytest.mark.parametrize("script", [True, False])
def test_two_windows_press_different_things_and_both_read_what_is_true(enter: Enter, script: bool) -> None:
    """The second has not heard of the stop, and offers Pause still; then it begins a run that the first may stop."""
    ann, stale = enter("ann"), enter("ann", java_script_enabled=script)
    wire = Wire(stale)
    stale.goto(start(ann, f"Two windows, script {script}", pace="30"))
    if script:
        expect(stale.locator("[data-agentstop][data-live=on]")).to_be_visible()
        wire.down = True
        wire.cut(1012)
    ann.locator(".agentstop-stop").click()
    expect(ann.locator(".agentstop-who")).to_contain_text("Stopped by ann")
    expect(stale.locator(".agentstop-who")).to_contain_text("Running")
    stale.get_by_role("button", name="Pause").click()
    expect(stale.locator(".agentstop-who")).to_contain_text("Stopped by ann")
    expect(stale.get_by_text("It was paused already, or is over: nothing was changed.")).to_be_visible()
    expect(stale.locator("[role=alert]:visible")).to_have_count(0)
    stale.get_by_role("button", name="New run").click()
    expect(stale.locator(".agentstop-who")).to_contain_text("Running")
    expect(ann.locator(".agentstop-who")).to_contain_text("Running")
    ann.locator(".agentstop-stop").click()
    expect(ann.locator(".agentstop-who")).to_contain_text("Stopped by ann")


def test_facts_of_one_word_of_any_length_stay_within_the_desk(enter: Enter, site: Demo) -> None:
    task = stored(site, "under_way")
    heard(site, task, "report.create", ("running", "read_back", "x" * 5000), ("failed", "read_back", "y" * 100_000))
    ann, olga = enter("ann"), enter("olga", viewport={"width": 1200, "height": 900})
    ann.goto(f"/tasks/{task}/")
    operation = str(ann.locator("[id$='-facts']").first.get_attribute("href")).strip("/").split("/")[-1]
    for address in (f"operation/{operation}/change/", f"receipt/?operation__exact={operation}", f"task/{task}/change/"):
        olga.goto(f"/admin/agentstop/{address}")
        expect(olga.locator("#content")).to_be_visible()
        wide = "[document.querySelector('#main').scrollWidth, document.documentElement.scrollWidth]"
        assert max(olga.evaluate(wide)) <= 1200, address
    olga.goto(f"/admin/agentstop/operation/{operation}/change/")
    olga.locator("td, td p").evaluate_all("each => each.forEach((one) => { one.style.overflowWrap = 'normal'; })")
    assert max(olga.evaluate(wide)) > 1200, "this would not be found"
