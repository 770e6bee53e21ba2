"""The addresses over HTTP: see a task, stop it, have a provider asked, undo, settle. All work as plain forms, too."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.shortcuts import render
from django.utils.translation import gettext

from agentstop import bodies, compensate, database, frozen, permissions, reconcile, stop
from agentstop.accounts import selection
from agentstop.compensate import CannotCompensate
from agentstop.exceptions import Denied, Frozen, InFlight, TaskNotFound
from agentstop.models import Operation
from agentstop.models.facts import Decided
from agentstop.reports import family_report, freeze_report, report
from agentstop.reports.operation_report import OperationReport
from agentstop.reports.report import TaskReport
from agentstop.settlement import NotSettled, settle_by_hand
from agentstop.stop import StopReport
from agentstop.templatetags.agentstop import agentstop_clock
from agentstop.views.addresses import REASON, address, answer, back, body, button, is_number, next_page
from agentstop.words import manifold, sentences


@address("GET", "HEAD")
def task(request: HttpRequest, task: int) -> HttpResponse:
    """The page of one task."""
    told, _ = report.load(task, request.user)
    return render(request, "agentstop/task.html", {"report": told, "task_id": task})


@address("GET", "HEAD")
def fragment(request: HttpRequest, task: int) -> HttpResponse:
    """The panel's body alone, as it is now."""
    return body(request, task)


@address("GET", "HEAD")
def button_alone(request: HttpRequest, task: int) -> HttpResponse:
    """A Stop button that stands alone, as it is now."""
    return button(request, task)


@address("POST")
def press_stop(request: HttpRequest, task: int) -> HttpResponse:
    """Stop the task that was shown: `run` is the number of the run that the page saw."""
    number = request.POST.get("run", "")
    if not is_number(number, 9):
        return HttpResponseBadRequest("run must be the number of the run that the page showed.")
    done = stop.stop(task, by=request.user, reason=request.POST.get("reason", "")[:REASON], run=int(number))
    return answer(request, task, _said(done, task, request.user))


@address("POST")
def look_up(request: HttpRequest, task: int) -> HttpResponse:
    """Have the provider of one operation asked now."""
    permissions.get_allowed(request.user, "view_task", task, Decided.LOOK_UP)
    number = request.POST.get("operation", "")
    operations = Operation.objects.using(database.alias()).filter(task=task)
    if not is_number(number, 18) or not operations.filter(pk=int(number)).exists():
        raise TaskNotFound(f"There is no operation {number!r} of task {task} for you.")
    possible = reconcile.look_up_now(int(number), by=request.user)
    return answer(request, task, gettext(sentences.ASKED_NOW if possible else sentences.NOT_ASKED))


@address("GET", "HEAD", "POST")
def undo(request: HttpRequest, operation: int) -> HttpResponse:
    """Name the consequences of undoing what an operation has done; undo it when they are confirmed."""
    reason = bodies.safe(request.POST.get("reason", "")[:REASON])
    told, found = _to_confirm(request, operation, "compensate_operation", Decided.COMPENSATE, reason)
    if request.method == "POST":
        try:
            compensate.compensate(operation, by=request.user, reason=reason)
        except (CannotCompensate, Frozen, InFlight) as refusal:
            return back(request, told.id, gettext(sentences.NOT_UNDONE[refusal.reason]))
        return back(request, told.id, gettext(sentences.UNDOING_BEGAN))
    way = found.way_to_undo
    if way is None:
        undone = InFlight if found.undoing is not None else CannotCompensate
        return back(request, told.id, gettext(sentences.NOT_UNDONE[undone.reason]))
    held = frozen.seen(database.now()).holding(found.connector, way.action, lambda: frozen.owner_of(told.id))
    texts = {
        "held": freeze_report.tell(held) if held is not None else None,
        "consequences": way.consequences or gettext(sentences.NO_CONSEQUENCES),
        "extent": gettext(sentences.EXTENTS[way.extent]),
        "stays": gettext(sentences.STAYS_DONE),
        "several": gettext(manifold.UNDOES_ONE_OF_SEVERAL) if found.doubled else "",
    }
    return _ask(request, "undo", told, found, {"way": way, **texts})


@address("GET", "HEAD", "POST")
def settle(request: HttpRequest, operation: int) -> HttpResponse:
    """Ask a person what became of an operation that no evidence settles, and on what evidence they say so."""
    outcome, reason = request.POST.get("outcome", ""), bodies.safe(request.POST.get("reason", "")[:REASON])
    told, found = _to_confirm(request, operation, "settle_operation", Decided.SETTLE, reason)
    if not found.can_settle:
        return back(request, told.id, gettext(sentences.NOT_SETTLED))
    wrong = _wrong(outcome, reason) if request.method == "POST" else {}
    if request.method == "POST" and not wrong:
        try:
            settle_by_hand(operation, by=request.user, outcome=outcome, reason=reason)
        except NotSettled:
            return back(request, told.id, gettext(sentences.NOT_SETTLED))
        return back(request, told.id, gettext(sentences.SETTLED_NOW))
    texts = {
        "outcomes": [(claim.value, gettext(name)) for claim, name in sentences.OUTCOMES.items()],
        "word": gettext(sentences.WORD_OF_A_PERSON),
        "ask_first": gettext(sentences.ASK_FIRST) if found.can_look_up else "",
    }
    return _ask(request, "settle", told, found, {"outcome": outcome, "reason": reason, "wrong": wrong, **texts})


def _to_confirm(
    request: HttpRequest, operation: int, permission: str, verb: Decided, reason: str
) -> tuple[TaskReport, OperationReport]:
    """The operation as it is now, for one who may do that. An attempt without the right is kept, a look is not."""
    row = Operation.objects.using(database.alias()).select_related("task").filter(pk=operation).first()
    if row is None:
        raise TaskNotFound(f"There is no operation {operation} for you.")
    if request.method == "POST":
        permissions.require(request.user, permission, row.task, verb, reason=reason)
    told, _ = report.load(row.task_id, request.user, selection.only([operation]))
    if not permissions.may(request.user, permission, row.task):
        raise Denied(f"You may see task {row.task_id}, and not {verb} what it has done. Ask its owner or an operator.")
    return told, next(each for each in told.operations if each.id == operation)


def _wrong(outcome: str, reason: str) -> dict[str, str]:
    """What is missing, by the name of the field."""
    wrong = {}
    if outcome not in sentences.OUTCOMES:
        wrong["outcome"] = gettext(sentences.WHICH_OUTCOME)
    if not reason.strip():
        wrong["reason"] = gettext(sentences.WHICH_EVIDENCE)
    return wrong


def _ask(
    request: HttpRequest, page: str, told: TaskReport, found: OperationReport, more: dict[str, Any]
) -> HttpResponse:
    """The page that asks before something is done; 422 where what was sent misses something."""
    context = {"report": told, "operation": found, "back": next_page(request, told.id), **more}
    return render(request, f"agentstop/{page}.html", context, status=422 if more.get("wrong") else 200)


def _said(done: StopReport, task: int, user: Any) -> str:
    """The line that tells what a press did where the state does not show it."""
    told, _ = report.load(task, user)
    sentence = gettext(family_report.press(done)) if done.why else ""
    if told.stop is not None:
        sentence %= {"who": told.stop.by or gettext(sentences.SOMEBODY), "at": agentstop_clock(told.stop.at)}
    return " ".join([sentence, *family_report.tell_press(done)]).strip()
