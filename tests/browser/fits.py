"""Whether a page fits its window, in either direction of writing, and what can be pressed is large enough."""

from __future__ import annotations

from playwright.sync_api import Page

# What sticks out of the window: not what is hidden from eyes, nor what is in a region that scrolls by itself.
OUTSIDE = """() => {
  const wide = document.documentElement.scrollWidth > window.innerWidth ? ["the page scrolls sideways"] : [];
  const out = [...document.querySelectorAll("body *")].filter((each) => {
    const box = each.getBoundingClientRect();
    if (!box.width || !box.height || each.closest(".agentstop-hidden, .agentstop-scroll, .skip, pre")) return false;
    return box.left < -1 || box.right > window.innerWidth + 1;
  });
  return [...wide, ...out.map((each) => `${each.tagName}.${each.className} ${each.textContent.trim().slice(0, 60)}`)];
}"""
SMALL = """() => [...document.querySelectorAll("main a, main button, main summary, main input")].filter((each) => {
  const box = each.getBoundingClientRect();
  const inline = each.matches("bdi a, p:not([class]) > a, td a, dd a") ;
  return box.width && box.height < 24 && !inline && !each.matches("[type=checkbox], [type=radio], [type=hidden]");
}).map((each) => `${each.tagName} ${each.textContent.trim().slice(0, 60)} ${each.getBoundingClientRect().height}`)"""


def misfits(page: Page) -> list[str]:
    """What does not fit, left to right and right to left."""
    found = []
    for direction in ("rtl", "ltr"):
        page.evaluate("direction => { document.documentElement.dir = direction; }", direction)
        found += [f"{direction} {page.url}: {each}" for each in page.evaluate(OUTSIDE)]
    return found + [f"too small at {page.url}: {each}" for each in page.evaluate(SMALL)]
