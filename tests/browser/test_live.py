"""R37 in a real browser: the same truth after the server was killed, in a hidden tab, and after a sleep."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page, WebSocketRoute, expect

from agentstop.accounts.selection import PANEL
from tests.browser.conftest import Enter
from tests.browser.server import second_server
from tests.browser.stored import stored
from tests.browser.test_panel import LISTEN, open_task, stop_button
from tests.demo_process import Demo

DOWN = "Not live: the connection is down. What is shown may be out of date."
HIDE = """hidden => {
    Object.defineProperty(document, 'hidden', { configurable: true, get: () => hidden });
    document.dispatchEvent(new Event('visibilitychange'));
}"""


def sign(page: Page) -> Any:
    return page.locator("[data-agentstop-mark]").first


def live(page: Page) -> Any:
    return page.locator("[data-agentstop][data-live=on]")


def test_a_server_that_is_killed_and_comes_back_is_told_and_caught_up_with(
    enter: Enter, site: Demo, complaints: list[str]
) -> None:
    ann, other = enter("ann"), enter("ann")
    open_task(ann, "The server dies")
    path = ann.url.removeprefix(site.address)
    other.goto(path)
    with second_server(site) as server:
        ann.goto(server.address + path)  # the same host: the session is known there
        expect(live(ann)).to_be_visible()
        ann.evaluate(LISTEN)
        server.kill()
        expect(sign(ann)).to_have_text(DOWN)
        stop_button(other).click()
        expect(other.locator(".agentstop")).to_contain_text("Stopped by ann")
        expect(ann.locator(".agentstop")).not_to_contain_text("Stopped by ann")
        server.start()
        expect(ann.locator(".agentstop")).to_contain_text("Stopped by ann")
        expect(live(ann)).to_be_visible()
        expect(sign(ann)).to_be_hidden()
        assert sum(told.startswith("Stopped.") for told in ann.evaluate("announced")) == 1
        ann.goto(site.address)
    complaints.clear()  # the browser's own words about sockets that nobody took


def test_a_hidden_tab_has_no_socket_and_is_up_to_date_when_it_is_seen_again(enter: Enter) -> None:
    ann, other = enter("ann"), enter("ann")
    sockets: list[Any] = []
    open_task(ann, "Hidden")
    other.goto(ann.url)
    ann.on("websocket", lambda socket: sockets.append(socket))
    ann.reload()
    expect(live(ann)).to_be_visible()
    ann.evaluate(LISTEN)
    ann.evaluate(HIDE, True)
    expect(ann.locator("[data-agentstop][data-live=asleep]")).to_be_visible()
    [socket] = sockets
    if not socket.is_closed():
        socket.wait_for_event("close")
    stop_button(other).click()
    expect(other.locator(".agentstop")).to_contain_text("Stopped by ann")
    expect(ann.locator(".agentstop")).not_to_contain_text("Stopped by ann")
    expect(sign(ann)).to_be_hidden()  # nobody looks: nothing is announced
    assert sockets == [socket]
    ann.evaluate(HIDE, False)
    expect(ann.locator(".agentstop")).to_contain_text("Stopped by ann")
    expect(live(ann)).to_be_visible()
    assert sum(told.startswith("Stopped.") for told in ann.evaluate("announced")) == 1


def test_after_a_sleep_in_which_the_connection_died_silently_it_says_so_and_opens_another_one(enter: Enter) -> None:
    ann = enter("ann")
    deaf = False
    opened: list[WebSocketRoute] = []

    def between(socket: WebSocketRoute) -> None:
        opened.append(socket)
        server = socket.connect_to_server()
        server.on_message(lambda frame: None if deaf else socket.send(frame))

    ann.route_web_socket("**/ws/**", between)
    ann.clock.install()
    open_task(ann, "Slept")
    deaf = True
    before = len(opened)
    ann.clock.fast_forward("10:00")
    expect(sign(ann)).to_have_text(DOWN)
    deaf = False
    expect(live(ann)).to_be_visible()
    assert len(opened) > before
    expect(sign(ann)).to_be_hidden()


def test_ten_thousand_operations_are_seen_followed_and_stopped(enter: Enter, site: Demo) -> None:
    task = stored(site, "very_many", of="crowd")
    ann = enter("ann")
    frames: list[int] = []
    ann.on("websocket", lambda socket: socket.on("framereceived", lambda frame: frames.append(len(frame))))
    ann.goto(f"/tasks/{task}/")
    expect(live(ann)).to_be_visible()
    rows = ann.locator(".agentstop-operation")
    expect(rows).to_have_count(10 + (PANEL.others or 0))
    expect(ann.locator(".agentstop-line")).to_contain_text("10 unknown outcomes")
    expect(ann.locator(".agentstop-rest")).to_contain_text("9890 older operations")
    stored(site, "one_more", of="crowd")
    expect(rows.last).to_contain_text("one more")
    expect(rows).to_have_count(10 + (PANEL.others or 0))
    assert max(frames[1:]) < 30_000, "only what has changed travels"
    stop_button(ann).click()
    expect(ann.locator(".agentstop")).to_contain_text("Stopped by ann")
    ann.get_by_role("link", name="completed before cancellation").click()
    expect(rows).to_have_count(50)
    ann.get_by_role("link", name="Older").click()
    expect(rows).to_have_count(50)
    ann.get_by_role("link", name="Unknown outcome").click()
    expect(rows).to_have_count(10)
