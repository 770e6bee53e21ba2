"""A person with a browser: logs in, starts tasks, reads pages, presses Stop; by plain forms, as without script."""

from __future__ import annotations

from typing import Any

import httpx

from agentstop.panel import prefix
from website.demo.promises import panel
from website.demo.promises.panel import Broken, Seen
from website.demo.promises.tree import Node, parse

PATIENCE = 60.0  # seconds; a hang guard


class Visitor:
    """One browser session."""

    def __init__(self, address: str, name: str, password: str) -> None:
        self.address, self.name = address, name
        self.http = httpx.Client(base_url=address, timeout=PATIENCE, trust_env=False)
        self._submit("/login/", "form", username=name, password=password)
        self._expect(self.http.get("/"), 200)

    def close(self) -> None:
        self.http.close()

    @property
    def cookies(self) -> str:
        return "; ".join(f"{name}={value}" for name, value in self.http.cookies.items())

    def page(self, path: str) -> Node:
        return parse(self._expect(self.http.get(path), 200).text)

    def read(self, task: int) -> Seen:
        """The task's page, loaded now."""
        return panel.read(self.page(f"/tasks/{task}/"), task)

    def start(self, topic: str, **wishes: Any) -> int:
        """Start a task by the form; its number."""
        answer = self._submit("/", "/start/", **_wishes(topic, wishes))
        return int(self._expect(answer, 302).headers["location"].strip("/").rpartition("/")[2])

    def start_again(self, task: int, topic: str, **wishes: Any) -> None:
        """A new run of the same task, by its form."""
        path = f"/tasks/{task}/"
        self._expect(self._submit(path, f"{path}start/", **_wishes(topic, wishes)), 302)

    def stop_form(self, task: int) -> dict[str, str]:
        """What pressing Stop on the page, as it is now, would send; with the address to send it to."""
        page = self.page(f"/tasks/{task}/")
        form, button = page.by_id(f"{prefix(task)}-stop"), page.by_id(f"{prefix(task)}-button")
        if form is None or button is None or button.get("type") != "submit":
            raise Broken(f"{self.name} finds no Stop on the page of task {task}")
        return {**_hidden(form), button.get("name"): button.get("value"), "address": form.get("action")}

    def press(self, form: dict[str, str]) -> httpx.Response:
        """Send a form of Stop, as it was when the page was loaded."""
        fields = {name: value for name, value in form.items() if name != "address"}
        return self.http.post(form["address"], data=fields)

    def stop(self, task: int) -> Seen:
        """Press Stop, and read the page that one is sent back to."""
        answer = self._expect(self.press(self.stop_form(task)), 302)
        return panel.read(self.page(answer.headers["location"]), task)

    def _submit(self, path: str, action: str, **fields: Any) -> httpx.Response:
        """Fill in the form with this action on a page, and send it. `form`: whichever posts to the page itself."""
        action = path if action == "form" else action
        forms = [node for node in self.page(path) if node.tag == "form" and node.get("action") == action]
        if not forms:
            raise Broken(f"{path} has no form that posts to {action}")
        return self.http.post(action, data={**_hidden(forms[0]), **fields})

    def _expect(self, answer: httpx.Response, status: int) -> httpx.Response:
        if answer.status_code != status:
            asked = f"{answer.request.method} {answer.request.url.path}"
            raise Broken(f"{asked} by {self.name} answered {answer.status_code} instead of {status}")
        return answer


def _hidden(form: Node) -> dict[str, str]:
    return {node.get("name"): node.get("value") for node in form if node.get("type") == "hidden"}


def _wishes(topic: str, wishes: dict[str, Any]) -> dict[str, Any]:
    return {"topic": topic, "channel": "#check", "pace": "0", "troubled": "report", "troubles": [], **wishes}
