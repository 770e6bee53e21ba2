"""The panel in a real browser: focus, announcements, and what it says when it is not live."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page, WebSocketRoute, expect

from tests.browser.conftest import Enter

LISTEN = """window.announced = []; new MutationObserver((changes) => changes.forEach(({ target }) => {
    const element = target.nodeType === 1 ? target : target.parentElement;
    const region = element?.closest("[role=status], [role=alert]");
    if (region) window.announced.push(region.textContent.trim());
})).observe(document.body, { subtree: true, childList: true, characterData: true });"""


def open_task(page: Page, topic: str) -> None:
    """Start a task whose agent does nothing for a while."""
    page.goto("/")
    page.get_by_label("What should it be about?").fill(topic)
    page.get_by_label("Seconds that the agent thinks before each step").fill("30")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.locator("[data-agentstop][data-live=on]")).to_be_visible()
    expect(page.locator(".agentstop-line")).to_contain_text("3 waiting")  # listed, and nothing happens for a while


def stop_button(page: Page) -> Any:
    return page.locator(".agentstop").get_by_role("button", name="Stop", exact=True)


class Wire:
    """Stands between the page and the server's websocket, and can be cut."""

    def __init__(self, page: Page) -> None:
        self.down = False
        self.cut: Callable[[int], None] = lambda code: None
        page.route_web_socket("**/ws/**", self._open)

    def _open(self, socket: WebSocketRoute) -> None:
        if self.down:
            socket.close(code=1013)
            return
        socket.connect_to_server()
        self.cut = lambda code: socket.close(code=code)


def test_the_focus_stays_on_what_was_pressed_and_the_stop_is_announced_once(enter: Enter) -> None:
    ann = enter("ann")
    open_task(ann, "Focus")
    ann.evaluate(LISTEN)
    stop_button(ann).focus()
    ann.keyboard.press("Enter")
    expect(ann.locator(".agentstop")).to_contain_text("The agent has halted.")
    assert ann.evaluate("document.activeElement.className") == "agentstop-stop"
    stopped = [told for told in ann.evaluate("announced") if told.startswith("Stopped.")]
    assert len(stopped) == len(set(stopped)) >= 1
    assert ann.evaluate("announced") == stopped
    ann.keyboard.press("Tab")
    expect(stop_button(ann)).to_be_hidden()


def test_the_providers_own_ledger_stands_beside_the_panel_and_moves_with_it(enter: Enter) -> None:
    """By htmx, which has no part in the panel: what it presses is pressed once."""
    ann = enter("ann")
    presses: list[str] = []
    ann.on("request", lambda request: presses.append(request.url) if request.url.endswith("/stop/") else None)
    ann.goto("/")
    ann.get_by_label("What should it be about?").fill("Two books")
    ann.get_by_label("Seconds that the agent thinks before each step").fill("1")
    ann.get_by_role("button", name="Start", exact=True).click()
    expect(ann.locator(".ledger")).to_contain_text("Two books")
    stop_button(ann).click()
    expect(ann.locator(".agentstop-line")).to_contain_text("Stopped.")
    expect(ann.locator(".ledger")).not_to_contain_text("running")
    assert len(presses) == 1


def test_a_connection_that_is_down_is_told_and_made_good(enter: Enter) -> None:
    ann, other = enter("ann"), enter("ann")
    wire = Wire(ann)
    open_task(ann, "Cut off")
    other.goto(ann.url)
    ann.evaluate(LISTEN)
    wire.down = True
    wire.cut(1012)
    expect(ann.locator("[data-agentstop-mark]")).to_have_text(
        "Not live: the connection is down. What is shown may be out of date."
    )
    stop_button(other).click()
    expect(other.locator(".agentstop")).to_contain_text("Stopped by ann")
    expect(ann.locator(".agentstop")).not_to_contain_text("Stopped by ann")
    wire.down = False
    expect(ann.locator(".agentstop")).to_contain_text("Stopped by ann")
    expect(ann.locator("[data-agentstop-mark]")).to_be_hidden()
    assert sum(told.startswith("Stopped.") for told in ann.evaluate("announced")) == 1


def test_a_session_that_is_over_is_told_and_not_tried_again(enter: Enter) -> None:
    ann = enter("ann")
    wire = Wire(ann)
    open_task(ann, "Logged out")
    wire.cut(4403)
    expect(ann.locator("[data-agentstop-mark]")).to_contain_text("you are no longer logged in")
    assert ann.locator("[data-agentstop]").get_attribute("data-live") == "over"


def test_a_press_that_does_not_arrive_is_told_as_a_failure(enter: Enter, complaints: list[str]) -> None:
    ann = enter("ann")
    open_task(ann, "Lost press")
    ann.route("**/stop/", lambda route: route.abort())
    stop_button(ann).click()
    expect(ann.locator("[data-agentstop-lost]")).to_have_text(
        "That press may not have arrived. Look at the state, and press again."
    )
    ann.unroute("**/stop/")
    stop_button(ann).click()
    expect(ann.locator(".agentstop")).to_contain_text("Stopped by ann")
    expect(ann.locator("[data-agentstop-lost]")).to_be_hidden()
    complaints.clear()  # the browser's own words about the request that was dropped
