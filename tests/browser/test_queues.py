"""The demo's agent as jobs of a queue, in a real browser: the same Stop, and the same truth. R10."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Enter
from tests.browser.test_pages import SLOW, mark, not_reloaded, panel, row, start, stop_button
from tests.redis_server import redis_program

OF_CELERY = pytest.mark.skipif(redis_program() is None, reason="There is no redis-server here.")
KINDS = [
    pytest.param("as a chain of Celery jobs", id="Celery", marks=OF_CELERY),
    pytest.param("as jobs of Django's tasks", id="Django's tasks"),
]


@pytest.mark.parametrize("kind", KINDS)
def test_a_stop_reaches_the_steps_that_wait_in_a_queue(enter: Enter, kind: str) -> None:
    """What has left is cancelled at its provider, what waits is not sent; and the agent says that it has halted."""
    ann = enter("ann")
    start(ann, f"Goes through {kind}", kind=kind)
    for action in ("report.create", "file.upload", "notify.post"):
        expect(row(ann, action)).to_contain_text("completed")
    expect(panel(ann).locator("[data-state=finished]")).to_be_visible()
    expect(ann.locator("dl")).to_contain_text(kind.removeprefix("as "))

    start(ann, f"Stopped {kind}", SLOW, kind=kind)
    mark(ann)
    expect(row(ann, "report.create")).to_contain_text("in progress")
    expect(row(ann, "file.upload")).to_contain_text("waiting")
    stop_button(ann).click()
    expect(panel(ann)).to_contain_text("Stopped by ann")
    expect(panel(ann)).to_contain_text("The agent has halted.")
    expect(row(ann, "report.create")).to_contain_text("cancelled")
    for action in ("file.upload", "notify.post"):
        expect(row(ann, action)).to_contain_text("not sent")
    expect(ann.locator(".ledger")).to_contain_text("cancelled")
    assert ann.locator(".ledger").inner_text().count(f"Stopped {kind}") == 1, "the provider has heard of one step alone"
    assert not_reloaded(ann)
