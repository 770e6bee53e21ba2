"""Questions in a real browser: approved, declined and closed in the page, by pointer, by keyboard, without scripts."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Enter
from tests.browser.test_pages import mark, not_reloaded, panel, row, stop_button
from tests.browser.test_panel import LISTEN

ASKED = "May I tell #team that the report is ready?"


def start(page: Page, topic: str) -> str:
    """Start a task whose agent asks before it tells the channel; when it waits for an answer, its address."""
    page.goto("/")
    page.get_by_label("What should it be about?").fill(topic)
    page.get_by_label("Seconds that the agent thinks before each step").fill("0")
    page.get_by_label("Ask me before the last step").check()
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.get_by_role("heading", name=topic).first).to_be_visible()
    return page.url


def question(page: Page) -> Any:
    return page.locator(".agentstop-question")


def test_an_approval_in_the_page_lets_the_agent_go_on_in_every_window_without_reload(enter: Enter) -> None:
    ann, other = enter("ann"), enter("ann")
    other.goto(start(ann, "Approved"))
    for page in (ann, other):
        expect(question(page)).to_contain_text(ASKED)
        expect(question(page)).to_contain_text("notify.post")
        expect(panel(page)).to_contain_text("The agent is waiting for a person.")
        mark(page)
    expect(row(ann, "notify.post")).to_contain_text("It waits until a person has approved it.")
    question(ann).get_by_role("button", name="Approve").click()
    for page in (ann, other):
        expect(question(page)).to_contain_text("Approved by ann")
        expect(question(page)).to_contain_text("The agent has taken the answer.")
        expect(row(page, "notify.post")).to_contain_text("completed")
        assert not_reloaded(page)


def test_a_stop_while_a_question_is_open_closes_it_under_the_focus(enter: Enter) -> None:
    ann, other = enter("ann"), enter("ann")
    other.goto(start(ann, "Stopped while it asks"))
    expect(question(ann)).to_contain_text(ASKED)
    reason = question(ann).get_by_label("Reason to decline (optional)")
    reason.fill("I am not")
    expect(question(other)).to_contain_text(ASKED)
    stop_button(other).click()
    expect(question(ann)).to_contain_text("Closed: the task was stopped before the agent had taken an answer.")
    expect(panel(ann)).to_contain_text("Stopped by ann")
    expect(reason).to_be_focused()
    expect(reason).to_have_value("I am not")
    expect(question(ann).get_by_role("button", name="Approve")).to_be_hidden()
    expect(row(ann, "notify.post")).to_contain_text("not sent")
    reason.blur()
    expect(reason).to_be_hidden()


def test_a_no_is_told_on_the_operation_and_the_agent_ends(enter: Enter) -> None:
    ann = enter("ann")
    start(ann, "Declined")
    question(ann).get_by_label("Reason to decline (optional)").fill("too early")
    question(ann).get_by_role("button", name="Decline").click()
    expect(question(ann)).to_contain_text("Declined by ann")
    expect(question(ann)).to_contain_text("too early")
    expect(row(ann, "notify.post")).to_contain_text("a person has declined it")
    expect(panel(ann)).to_contain_text("The agent has finished.")


def test_by_keyboard_the_focus_stays_and_enter_in_a_field_presses_nothing(enter: Enter) -> None:
    ann = enter("ann")
    start(ann, "By keyboard")
    expect(question(ann)).to_contain_text(ASKED)
    ann.evaluate(LISTEN)
    posts: list[str] = []
    ann.on("request", lambda request: posts.append(request.url) if request.method == "POST" else None)
    question(ann).get_by_label("Reason to decline (optional)").focus()
    ann.keyboard.type("no")
    ann.keyboard.press("Enter")
    expect(question(ann)).to_contain_text("It waits for an answer.")
    assert posts == []
    approve = question(ann).get_by_role("button", name="Approve")
    approve.focus()
    ann.keyboard.press("Enter")
    expect(question(ann)).to_contain_text("The agent has taken the answer.")
    expect(approve).to_be_focused()
    assert len(posts) == 1


def test_what_is_typed_survives_what_arrives(enter: Enter) -> None:
    """Another question's answer, and everything else that is pushed, leaves a half-typed text alone."""
    ann, other = enter("ann"), enter("ann")
    other.goto(start(ann, "Half typed"))
    expect(question(ann)).to_contain_text(ASKED)
    reason = question(ann).get_by_label("Reason to decline (optional)")
    reason.fill("wait a mom")
    expect(question(other)).to_contain_text(ASKED)
    question(other).get_by_role("button", name="Approve").click()
    expect(question(ann)).to_contain_text("Approved by ann")
    expect(reason).to_have_value("wait a mom")
    expect(reason).to_be_focused()


def test_the_list_says_who_waits_for_whom(enter: Enter) -> None:
    ann, olga = enter("ann"), enter("olga")
    start(ann, "In both lists")
    expect(question(ann)).to_contain_text(ASKED)
    ann.goto("/")
    olga.goto("/")
    mine = ann.locator(".agentstop-task").filter(has_text="In both lists")
    theirs = olga.locator(".agentstop-task").filter(has_text="In both lists")
    expect(mine).to_contain_text("waiting for you")
    expect(theirs).to_contain_text("waiting for a person")
    other = enter("ann")
    other.goto(str(mine.get_by_role("link").first.get_attribute("href")))
    question(other).get_by_role("button", name="Approve").click()
    expect(mine).not_to_contain_text("waiting for you")
    expect(theirs).not_to_contain_text("waiting for a person")


def test_it_works_without_scripts(enter: Enter) -> None:
    ann = enter("ann", java_script_enabled=False)
    start(ann, "Without scripts")
    for _ in range(30):
        if question(ann).count():
            break
        ann.wait_for_timeout(500)
        ann.reload()
    question(ann).get_by_role("button", name="Approve").click()
    expect(panel(ann)).to_contain_text("Approved by ann")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_nothing_is_wider_than_the_page(enter: Enter, scheme: str) -> None:
    ann = enter("ann", viewport={"width": 360, "height": 740}, color_scheme=scheme)
    start(ann, f"On a phone, {scheme}")
    expect(question(ann)).to_contain_text(ASKED)
    assert ann.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
