"""R45 with a real browser: an operator holds what an agent wants to send; its owner reads it live, and its end too."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.browser.conftest import Enter


def start_task(page: Page, topic: str) -> None:
    page.goto("/")
    page.get_by_label("What should it be about?").fill(topic)
    page.get_by_label("Seconds that the agent thinks before each step").fill("1")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.locator("[data-agentstop][data-live=on]")).to_be_visible()


def freeze(page: Page, *, owner: str, reason: str) -> None:
    page.goto("/admin/agentstop/freeze/")
    page.get_by_role("link", name="Add freeze").click()
    page.get_by_label("Connector").select_option("sandbox")
    page.get_by_label("Owner").fill(owner)
    page.get_by_label("Reason").fill(reason)
    page.get_by_role("button", name="Show what that means").click()
    expect(page.locator("#content")).to_contain_text(f"This would hold dispatch to sandbox for {owner}.")
    page.get_by_role("button", name="Hold it").click()
    expect(page.locator(".messagelist")).to_contain_text(f"Held: dispatch to sandbox for {owner}.")


def lift(page: Page) -> None:
    page.get_by_role("link", name="Lift…").click()
    page.get_by_label("Reason").fill("repaired")
    page.get_by_role("button", name="Lift it").click()
    expect(page.locator(".messagelist")).to_contain_text("It was lifted")


def test_a_freeze_is_read_live_and_the_agent_goes_on_when_it_is_lifted(enter: Enter) -> None:
    olga, ben = enter("olga"), enter("ben")
    freeze(olga, owner="ben", reason="it posts twice")
    start_task(ben, "Frozen")
    panel = ben.locator(".agentstop")
    expect(panel.locator(".agentstop-held")).to_contain_text("Held: dispatch to sandbox for ben. By olga since")
    expect(panel).to_contain_text("Refused before it was sent: an operator holds it.")
    ben.goto("/")
    expect(ben.get_by_role("listitem").filter(has_text="Frozen").first).to_contain_text("Held: dispatch to sandbox")
    ben.get_by_role("link", name="Frozen").first.click()
    expect(panel.locator(".agentstop-held")).to_be_visible()
    lift(olga)
    expect(panel.locator(".agentstop-held")).to_have_count(0)
    expect(panel.locator(".agentstop-line")).to_contain_text("Finished. 3 completed")
