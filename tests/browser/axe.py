"""What axe-core has to say about a page as it is now: WCAG 2.2 A and AA, and its best practices."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page

SCRIPT = (Path(__file__).parent / "vendor" / "axe.min.js").read_text()
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22a", "wcag22aa", "best-practice"]


def violations(page: Page, within: str = "html") -> list[str]:
    """One line for each element there that breaks a rule. Evaluated: the policy would block a script that is added."""
    page.evaluate(SCRIPT)
    found = page.evaluate("([within, tags]) => axe.run(within, {runOnly: tags})", [within, TAGS])
    return [
        f"{rule['id']}: {node['target']} {node.get('failureSummary', '')}"
        for rule in found["violations"]
        for node in rule["nodes"]
    ]
