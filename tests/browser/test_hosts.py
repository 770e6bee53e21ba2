"""Panel, Stop button and list in the pages of hosts: with no htmx, htmx 2 and htmx 4, and without a websocket.

Their policy lets nothing inline run, and all of their bodies are boosted: a form that htmx took part in would be sent
twice, or to the wrong place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, Request, expect

from tests.browser.conftest import HANG_GUARD, complaint
from tests.counted import eventually
from tests.docs.pages import ROOT, blocks
from tests.hosts.process import served

KINDS = ["none", "htmx2", "htmx4"]
EVENTS = ["task", "operation", "question", "live", "press", "pressed"]
HEAR = """(names) => { window.heard = []; for (const name of names) {
    document.addEventListener(`agentstop:${name}`, (event) => window.heard.push([name, event.detail]));
} }"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("host")) as address:
        yield address


@pytest.fixture(scope="module")
def wsgi_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("wsgi"), asgi=False) as address:
        yield address


@dataclass
class Visit:
    """Ann at a host, with three tasks about a conversation, and all that her browser has sent."""

    page: Page
    address: str
    conversation: str
    tasks: list[str]
    posts: list[str]

    def go(self, kind: str, query: str = "") -> None:
        self.page.goto(f"{self.address}/page/{kind}/{self.conversation}/{query}")

    def act(self, task: str, key: str) -> None:
        """The agent of a task sends something."""
        assert self.page.request.get(f"{self.address}/act/{task}/?key={key}").ok

    def ask(self, task: str, key: str) -> None:
        """The agent of a task asks its owner."""
        assert self.page.request.get(f"{self.address}/act/{task}/?ask&key={key}").ok

    def heard(self, name: str) -> list[dict[str, object]]:
        told = "(name) => heard.filter(([each]) => each === name).map(([, detail]) => detail)"
        found: list[dict[str, object]] = self.page.evaluate(told, name)
        return found


Visiting = Callable[[str], Visit]


@pytest.fixture
def visit(chrome: Browser, complaints: list[str]) -> Iterator[Visiting]:
    expect.set_options(timeout=HANG_GUARD)
    contexts: list[BrowserContext] = []

    def begin(address: str) -> Visit:
        context = chrome.new_context()
        context.set_default_timeout(HANG_GUARD)
        contexts.append(context)
        page, posts = context.new_page(), list[str]()

        def sent(request: Request) -> None:
            if request.method == "POST":
                posts.append(request.url.removeprefix(address))

        page.on("request", sent)
        page.on("console", lambda told: complaints.extend(complaint(told, address)))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        assert page.request.get(f"{address}/enter/").ok
        conversation, *tasks = page.request.get(f"{address}/start/").text().split()
        return Visit(page, address, conversation, tasks, posts)

    yield begin
    for context in contexts:
        context.close()
    assert complaints == []


def stop_in(page: Page, place: str) -> Locator:
    return page.locator(place).get_by_role("button", name="Stop", exact=False).first


@pytest.mark.parametrize("kind", KINDS)
def test_panel_button_and_list_work_the_same_whatever_htmx_the_page_has(kind: str, host: str, visit: Visiting) -> None:
    ann = visit(host)
    one, two, three = ann.tasks
    ann.go(kind)
    page = ann.page
    expect(page.locator("[data-agentstop][data-live=on]")).to_have_count(3)
    page.evaluate(HEAR, EVENTS)
    page.evaluate("document.querySelector('main .agentstop-state').mine = true")
    page.locator("main input[name=reason]").fill("typed")
    ann.act(one, "k")
    expect(page.locator("main .agentstop-operation")).to_contain_text("completed")
    assert page.locator("main input[name=reason]").input_value() == "typed"
    assert page.evaluate("document.activeElement.name") == "reason"
    stop_in(page, "main").click()
    expect(page.locator("main")).to_contain_text("Stopped by ann@example.org")
    expect(page.locator("main")).to_contain_text("typed")
    assert page.evaluate("document.querySelector('main .agentstop-state').mine")
    stop_in(page, "aside").click()
    expect(page.locator("aside .agentstop-line")).to_contain_text("Stopped.")
    expect(page.locator("nav")).to_contain_text("Stopped.")
    assert ann.posts == [f"/agentstop/tasks/{task}/stop/" for task in (one, two)]
    stopped = [(told["id"], told["before"]) for told in ann.heard("task") if told["state"] == "stopped"]
    assert {(int(one), "active"), (int(two), "active")} == set(stopped)
    assert {told["state"] for told in ann.heard("operation")} >= {"succeeded"}
    eventually(lambda: [told["status"] for told in ann.heard("pressed")], [200, 200])  # a push may come first
    page.locator(f"#agentstop-task-{three}-row-stop").click()  # as the browser does it, to this page again
    expect(page.locator(f"#agentstop-task-{three}-row")).to_contain_text("stopped by")
    assert ann.posts[2:] == [f"/agentstop/tasks/{three}/stop/"]


@pytest.mark.parametrize("kind", ["htmx2", "htmx4"])
def test_a_panel_that_a_host_loads_later_is_carried_too(kind: str, host: str, visit: Visiting) -> None:
    ann = visit(host)
    ann.go(kind, "?late")
    ann.page.locator("#load").click()
    expect(ann.page.locator("#main [data-agentstop][data-live=on]")).to_be_visible()
    stop_in(ann.page, "#main").click()
    expect(ann.page.locator("#main")).to_contain_text("Stopped by ann@example.org")
    assert ann.posts == [f"/agentstop/tasks/{ann.tasks[-1]}/stop/"]
    ann.page.evaluate("window.one = document.querySelector('[data-agentstop]'); window.one.remove()")
    eventually(lambda: ann.page.evaluate("window.one.dataset.live"), "asleep")  # its socket is let go with it


def test_a_press_can_be_held_back_by_the_host(host: str, visit: Visiting) -> None:
    ann = visit(host)
    ann.go("none")
    expect(ann.page.locator("[data-agentstop][data-live=on]")).to_have_count(3)
    ann.page.evaluate("document.addEventListener('agentstop:press', (event) => event.preventDefault(), { once: true })")
    stop_in(ann.page, "main").click()
    assert ann.posts == []
    stop_in(ann.page, "main").click()
    expect(ann.page.locator("main")).to_contain_text("Stopped by ann@example.org")
    assert ann.posts == [f"/agentstop/tasks/{ann.tasks[0]}/stop/"]


def test_scripts_run_by_their_nonce_where_the_host_asks_for_one(host: str, visit: Visiting) -> None:
    ann = visit(host)
    ann.go("none", "?nonce")
    expect(ann.page.locator("[data-agentstop][data-live=on]")).to_have_count(3)


def test_a_wsgi_host_asks_every_few_seconds(wsgi_host: str, visit: Visiting) -> None:
    ann = visit(wsgi_host)
    one, two, _ = ann.tasks
    ann.go("none")
    page = ann.page
    expect(page.locator("[data-agentstop][data-live=polling]")).to_have_count(3)
    page.evaluate(HEAR, EVENTS)
    ann.act(one, "k")
    expect(page.locator("main .agentstop-operation")).to_contain_text("completed")
    stop_in(page, "aside").click()
    expect(page.locator("aside .agentstop-line")).to_contain_text("Stopped.")
    expect(page.locator(f"#agentstop-task-{two}-row")).to_contain_text("stopped by")
    assert ann.posts == [f"/agentstop/tasks/{two}/stop/"]
    assert {"id": int(two), "state": "stopped", "before": "active"} in ann.heard("task")


HIDE = """(hidden) => {
    Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
}"""
LOOKS = """(color) => {
    document.body.style.setProperty("--agentstop-stop", color);
    return getComputedStyle(document.querySelector("main button.agentstop-stop")).backgroundColor;
}"""


def test_the_page_hears_of_questions_and_of_its_connection_and_gives_its_looks(host: str, visit: Visiting) -> None:
    ann = visit(host)
    ann.go("none")
    expect(ann.page.locator("[data-agentstop][data-live=on]")).to_have_count(3)
    ann.page.evaluate(HEAR, EVENTS)
    ann.ask(ann.tasks[0], "q")
    expect(ann.page.locator("main")).to_contain_text("Go on?")
    eventually(lambda: [(told["state"], told["before"]) for told in ann.heard("question")], [("pending", None)])
    for hidden, state in ((True, "asleep"), (False, "on")):
        ann.page.evaluate(HIDE, hidden)
        expect(ann.page.locator(f"[data-agentstop][data-live={state}]")).to_have_count(3)
        assert [told["state"] for told in ann.heard("live")].count(state) == 3
    assert {told["before"] for told in ann.heard("live") if told["state"] == "asleep"} == {"on"}
    for color in ("rgb(1, 2, 3)", "rgb(4, 5, 6)"):
        assert ann.page.evaluate(LOOKS, color) == color


CHAT = """([recipe]) => {
    window.stream = new AbortController();
    window.said = [];
    const real = window.fetch;
    window.fetch = async (address, ...more) => {
        const answer = await real(address, ...more);
        if (address.endsWith("/stop/")) window.said.push([answer.ok, window.stream.signal.aborted]);
        return answer;
    };
    const stream = window.stream;
    window.stopAnswering = eval(`(${recipe})`);
}"""
PRESS = """async ([task, run]) => {
    const token = document.querySelector("[name=csrfmiddlewaretoken]").value;
    try { await stopAnswering(task, run, token, stream); return ""; } catch (error) { return error.message; }
}"""


def chat_recipes() -> list[str]:
    """Those of the page for chats: with a button of one's own, and beside the button of agentstop."""
    found = [block.text for block in blocks(ROOT / "docs" / "embedding.md") if "stream.abort()" in block.text]
    assert len(found) == 2
    return found


def test_a_chat_asks_for_the_stop_first_and_aborts_only_then(host: str, visit: Visiting, complaints: list[str]) -> None:
    """The recipe of docs/embedding.md. Where nothing was stopped its stream runs on; a disconnect stops nothing."""
    ann = visit(host)
    one, two, _ = ann.tasks
    own, beside = chat_recipes()
    ann.go("none")
    page = ann.page
    expect(page.locator("[data-agentstop][data-live=on]")).to_have_count(3)
    page.evaluate(CHAT, [own])
    assert page.evaluate(PRESS, [one, 99]).startswith("Not stopped")
    assert page.evaluate("[said, stream.signal.aborted]") == [[[False, False]], False]
    eventually(lambda: len(complaints), 1)  # the browser's own, of the answer that was an error
    complaints.clear()
    page.evaluate("stream.abort()")
    ann.go("none")  # the connection is gone as well
    expect(page.locator("[data-agentstop][data-live=on]")).to_have_count(3)
    assert stop_in(page, "main").is_visible()
    page.evaluate(CHAT, [own])
    assert page.evaluate(PRESS, [one, 1]) == ""
    assert page.evaluate("[said, stream.signal.aborted]") == [[[True, False]], True]
    expect(page.locator("main")).to_contain_text("Stopped by ann@example.org")
    page.evaluate("(recipe) => { window.stream = new AbortController(); eval(recipe); }", beside)
    stop_in(page, "aside").click()
    page.wait_for_function("stream.signal.aborted")
    expect(page.locator("aside .agentstop-line")).to_contain_text("Stopped.")
    assert ann.posts == [f"/agentstop/tasks/{task}/stop/" for task in (one, one, two)]
