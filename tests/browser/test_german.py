"""R38: German for whoever's browser asks for it, in their own time zone, everywhere and live; narrow, and mirrored."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import violations
from tests.browser.conftest import Enter
from tests.browser.fits import misfits
from tests.browser.stored import stored
from tests.browser.test_pages import mark, not_reloaded
from tests.counted import eventually
from tests.demo_process import Demo
from tests.wording.catalogues import DOMAINS
from tests.wording.catalogues import stored as catalogue

READER = {
    "locale": "de-DE",
    "timezone_id": "Asia/Kolkata",
}  # half an hour beside all others, so that no zone is right by luck
PHONE = {"width": 320, "height": 256}  # what is left of 1280 by 1024 at 400 percent
TIMES = """() => [...document.querySelectorAll("time[data-agentstop-time]")].filter((time) => {
  const here = new Date(time.dateTime).toLocaleTimeString("de-DE");
  return !time.textContent.endsWith(here) || !time.dataset.ago || !time.title.includes(here);
}).map((time) => time.outerHTML)"""
# Sentences only: a word may be the same in both.
ENGLISH = [
    message.id
    for domain in DOMAINS
    for message in catalogue(domain)
    if isinstance(message.id, str) and message.id.count(" ") > 1 and "%" not in message.id
]


@pytest.fixture(scope="module")
def task(site: Demo) -> Iterator[int]:
    yield stored(site, "several")


def addresses(page: Page, task: int) -> list[str]:
    """A page of each kind that there is for this task."""
    page.goto(f"/tasks/{task}/")
    facts = page.get_by_role("link", name="Was gesendet und gehört wurde")
    found = [page.url, *(str(facts.nth(at).get_attribute("href")) for at in (2, facts.count() - 3))]
    settling = page.locator("button[formaction$='/settle/']:visible").first.get_attribute("formaction")
    return [
        *found,
        str(settling),
        f"/tasks/{task}/timeline/",
        f"/tasks/{task}/family/",
        "/",
        "/?show=unknown",
        "/tasks/stop/?mine=1",
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_german_in_the_readers_zone_and_breaks_no_rule(enter: Enter, task: int, scheme: str) -> None:
    ann = enter("ann", color_scheme=scheme, **READER)
    for address in addresses(ann, task):
        ann.goto(address)
        assert ann.evaluate("document.documentElement.lang") == "de"
        shown = ann.locator("body").inner_text()
        assert [text for text in ENGLISH if text in shown] == [], address
        eventually(lambda: ann.evaluate(TIMES), [])  # a push may just have brought a time
        assert violations(ann) == [], address


def test_every_page_fits_at_four_hundred_percent_and_mirrored(enter: Enter, task: int, complaints: list[str]) -> None:
    ann = enter("ann", viewport=PHONE, **READER)
    for address in [*addresses(ann, task), "/nichts/"]:
        ann.goto(address)
        ann.locator("details").evaluate_all("each => each.forEach((one) => { one.open = true; })")
        assert misfits(ann) == []
    complaints.clear()  # the browser's own words about the page that is not there


def test_what_these_tests_look_for_would_be_found(enter: Enter, task: int) -> None:
    """An English page, times of another zone, something wide, something small."""
    ann = enter("ann", timezone_id="Asia/Kolkata", viewport=PHONE)
    ann.context.clear_cookies(name="zone")
    ann.goto(f"/tasks/{task}/")
    shown = ann.locator("body").inner_text()
    assert len([text for text in ENGLISH if text in shown]) > 5
    assert len(ann.evaluate(TIMES)) > 5
    ann.goto(f"/tasks/{task}/timeline/")  # no socket there, which would put right what is broken here
    assert misfits(ann) == []
    ann.evaluate("document.querySelector('.agentstop-line').style.width = '400px'")
    ann.evaluate("document.querySelector('.agentstop-next').insertAdjacentHTML('beforeend', '<button>x</button>')")
    ann.locator(".agentstop-next button").evaluate("each => { each.style.minHeight = 0; each.style.height = '20px'; }")
    found = misfits(ann)
    assert any(each.startswith("ltr") for each in found) and any(each.startswith("rtl") for each in found)
    assert any("too small" in each for each in found)


def test_what_the_socket_brings_is_german_too(enter: Enter) -> None:
    ann = enter("ann", **READER)
    ann.get_by_label("Worum soll es gehen?").fill("Auf Deutsch")
    ann.get_by_label("Sekunden, die der Agent").fill("30")
    ann.get_by_role("button", name="Starten", exact=True).click()
    line, other = ann.locator(".agentstop-line"), enter("olga")
    expect(line).to_have_text("Läuft. 3 warten")
    mark(ann)
    other.goto(ann.url)
    other.locator(".agentstop-stop").click()
    expect(line).to_have_text("Gestoppt. Es wird nichts Neues mehr gesendet. 3 nicht gesendet")
    expect(ann.locator(".agentstop-who")).to_contain_text("Gestoppt von olga, ")
    expect(ann.locator(".agentstop-why-not")).to_have_text("Stopp, Pause, Fortsetzen: Die Aufgabe ist gestoppt.")
    expect(other.locator(".agentstop-who")).to_contain_text("Stopped by olga at ")
    assert not_reloaded(ann)
    assert ann.evaluate(TIMES) == []
