"""Draws the pictures of docs/pages.md and docs/operating.md anew: python -m tests.browser.pictures"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.conftest import ARGUMENTS
from tests.browser.stored import stored
from tests.demo_process import ROOT, Demo, demo
from tests.everything import chromium

IMAGES = ROOT / "docs" / "images"
LIVE = "[data-agentstop][data-live=on]"
FACTS = "What was sent and heard"
WINDOW = {"width": 1160, "height": 760}


def main() -> None:
    root = ["--no-sandbox"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory() as folder, demo(Path(folder)) as site, sync_playwright() as playwright:
        story, brief = stored(site, "several"), stored(site, "brief")
        browser = playwright.chromium.launch(executable_path=chromium(), args=[*ARGUMENTS, *root])
        for scheme in ("light", "dark"):
            draw(browser, site, story, brief, scheme)
        draw_desk(browser, site)
        browser.close()


def draw(browser: Browser, site: Demo, story: int, brief: int, scheme: str) -> None:
    context = browser.new_context(base_url=site.address, viewport=WINDOW, color_scheme=scheme)  # type: ignore[arg-type]
    page = context.new_page()
    log_in(page, site, "ann")
    page.locator(LIVE).wait_for()
    page.screenshot(path=IMAGES / f"list-{scheme}.png")
    page.goto(f"/tasks/{story}/timeline/")
    page.locator(".agentstop-sheet").screenshot(path=IMAGES / f"timeline-{scheme}.png")
    page.goto(f"/tasks/{brief}/")
    page.locator(LIVE).wait_for()
    page.set_viewport_size({"width": 1160, "height": 1240})
    page.screenshot(path=IMAGES / f"panel-{scheme}.png")
    page.locator(".agentstop-operation").filter(has_text="print.order").get_by_role("link", name=FACTS).click()
    page.locator(".agentstop-sheet").screenshot(path=IMAGES / f"operation-{scheme}.png")
    context.close()


def draw_desk(browser: Browser, site: Demo) -> None:
    context = browser.new_context(base_url=site.address, viewport={"width": 1240, "height": 620}, color_scheme="light")
    page = context.new_page()
    log_in(page, site, "olga")
    page.goto("/admin/agentstop/operation/desk/")
    page.screenshot(path=IMAGES / "desk-light.png")
    page.goto("/admin/agentstop/operation/?board=unknown")
    page.locator("#action-toggle").check()
    page.locator("select[name=action]").select_option("settle_operations")
    page.get_by_role("button", name="Run").or_(page.get_by_role("button", name="Go")).first.click()
    page.locator("form textarea").first.wait_for()
    page.screenshot(path=IMAGES / "desk-settle-light.png", full_page=True)
    context.close()


def log_in(page: Page, site: Demo, name: str) -> None:
    page.goto("/login/")
    page.get_by_label("Username").fill(name)
    page.get_by_label("Password").fill(site.people[name])
    page.get_by_role("button", name="Log in").click()


if __name__ == "__main__":
    main()
