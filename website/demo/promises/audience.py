"""What is promised to those who look: live and the same truth everywhere, and nothing for strangers."""

from __future__ import annotations

from websockets.exceptions import InvalidStatus

from agentstop.panel import socket
from website.demo.promises.panel import Broken
from website.demo.promises.scenes import Tell, shows
from website.demo.promises.signs import finished, halted, working
from website.demo.promises.stage import Stage, require
from website.demo.promises.watching import Watching, close_code, open_socket


@shows({"R30 R34": "stopping one task leaves another on the same connector alone"})
def the_other_task(stage: Stage, tell: Tell) -> None:
    with (
        stage.started("ann's own", point="accepted") as hers,
        stage.started("ben's own", point="accepted", by=stage.ben) as his,
    ):
        stage.ann.stop(hers.task)
        hers.until("the agent has halted", halted)
        stage.release("accepted", "ben's own")
        his.until("ben's task is finished", finished)
        written = stage.writes(his.task)
        require(written == 3, f"{written} of 3 steps of ben's task were done")
    tell(
        "R30 R34",
        f"ben's report was under way when ann stopped hers; his task finished, {written} of 3 steps done",
    )


@shows({"R32": "a closed page stops nothing"})
def the_tab_is_closed(stage: Stage, tell: Tell) -> None:
    with stage.started("nobody watches", point="accepted") as page:
        page.close()
    with Watching(stage.ann, page.task) as again:
        again.until("the task is finished", finished)
    tell("R32", f"the socket was closed in mid-send; {stage.writes(page.task)} of 3 steps were done all the same")


@shows(
    {
        "R35": "strangers learn nothing; an operator may stop, and is named to the owner",
        "R37": "every page and socket tells the same, without reload",
        "R38": "a plain form without script stops a task",
    }
)
def who_may(stage: Stage, tell: Tell) -> None:
    with stage.started("watched by many", pace="30") as page, Watching(stage.olga, page.task) as other:
        page.until("the agent works", working)
        form = stage.ann.stop_form(page.task)
        theirs = stage.ben.page("/").by_tag("input")
        token = theirs.get("value") if theirs else ""
        answers = {
            "page": stage.ben.http.get(f"/tasks/{page.task}/").status_code,
            "Stop": stage.ben.press(form | {"csrfmiddlewaretoken": token}).status_code,
            "unknown task": stage.ben.http.get("/tasks/999999/").status_code,
        }
        code = close_code(stage.ben, socket(page.task))
        require(set(answers.values()) == {404} and code >= 4000, f"ben got {answers}, and close code {code}")
        require(stage.ann.read(page.task).state == "active", "a stranger's press stopped the task")
        require("olga" in stage.olga.stop(page.task).who, "the operator is not named to herself")
        seen = page.until("stopped by olga", lambda seen: seen.state == "stopped" and "olga" in seen.who)
        tell("R35", f"ben got 404 for the page, for Stop and for a task that does not exist; ann reads “{seen.who}”")
        page.until("the agent has halted", halted)
        other.until("the agent has halted", halted)
        loaded = [stage.ann.read(page.task), stage.olga.read(page.task)]
        shown = [page.seen, other.seen]
        require(len({*loaded, *shown}) == 1, f"different truths: {loaded} loaded, {shown} pushed")
        tell("R37", "ann's and olga's sockets and freshly loaded pages: 4 of 4 tell the same")
    tell("R38", "the press was a form sent by POST, answered by a redirect to the page that says “stopped”")


@shows({"bad input": "refused with a clear answer, and nothing is half-done"})
def bad_input(stage: Stage, tell: Tell) -> None:
    with stage.started("bad input", pace="30") as page:
        page.until("the agent works", working)
        form = stage.ann.stop_form(page.task)
        answers = {
            "no CSRF token": stage.ann.press(form | {"csrfmiddlewaretoken": ""}).status_code,
            "no run": stage.ann.press(form | {"run": "x"}).status_code,
            "no topic": stage.ann.http.post(
                "/start/", data={"csrfmiddlewaretoken": form["csrfmiddlewaretoken"], "topic": "\0", "pace": "-1"}
            ).status_code,
            "another origin": _from_elsewhere(stage, page.task),
        }
        expected = {"no CSRF token": 403, "no run": 400, "no topic": 422, "another origin": 403}
        require(answers == expected, f"answered {answers} instead of {expected}")
        require(stage.ann.read(page.task).state == "active", "bad input stopped the task")
        stage.ann.stop(page.task)
    tell("bad input", "; ".join(f"{what}: {status}" for what, status in answers.items()))


def _from_elsewhere(stage: Stage, task: int) -> int:
    try:
        open_socket(stage.ann, socket(task), origin="http://elsewhere.example").close()
    except InvalidStatus as refused:
        return refused.response.status_code
    raise Broken("a websocket of another origin was served")
