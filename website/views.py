"""The pages of this site. Whoever may not see a task gets the same 404 as for one that does not exist."""

from __future__ import annotations

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_GET, require_POST

from agentstop import permissions
from agentstop.exceptions import Denied, TaskNotFound
from agentstop.models import Task
from website.demo import queue, referee
from website.demo.forms import StartForm, again
from website.demo.models import Job
from website.demo.steps import label


@require_GET
@login_required
def tasks(request: HttpRequest) -> HttpResponse:
    """The tasks that this person may see, and the form to start one."""
    return _tasks(request, StartForm())


@require_POST
@login_required
@transaction.non_atomic_requests
def start(request: HttpRequest) -> HttpResponse:
    """Queue a new task."""
    form = StartForm(request.POST)
    if not form.is_valid():
        return _tasks(request, form, status=422)
    job = queue.enqueue(request.user, form.cleaned_data)
    return redirect("task", job.task_id)


@require_GET
@login_required
def task(request: HttpRequest, task_id: int) -> HttpResponse:
    """One task: what became of it, and Stop."""
    found = _visible(request, task_id)
    return _task(request, found)


@require_GET
def ledger(request: HttpRequest, task_id: int) -> HttpResponse:
    """What the provider itself says of a task, as a part of the task's page; nothing once the session is over."""
    if not request.user.is_authenticated:
        return HttpResponse(status=204)
    job = _last_job(_visible(request, task_id))
    if job is None or not referee.address_of(job):
        return HttpResponse(status=204)
    return render(request, "ledger.html", {"lines": referee.told(job)})


@require_POST
@login_required
@transaction.non_atomic_requests
def start_again(request: HttpRequest, task_id: int) -> HttpResponse:
    """Begin a new run of a task that is over."""
    found = _visible(request, task_id)
    form = StartForm(request.POST)
    if not form.is_valid():
        return _task(request, found, form, status=422)
    try:
        queue.enqueue_again(found, request.user, form.cleaned_data)
    except queue.AlreadyRunning:
        messages.error(request, gettext("This task is under way. Stop it before you start it again."))
    except Denied as problem:
        text = gettext("You may see this task, and not start it. Ask its owner or an operator.")
        raise PermissionDenied(text) from problem
    return redirect("task", task_id)


def _tasks(request: HttpRequest, form: StartForm, status: int = 200) -> HttpResponse:
    context = {"form": form, "sandbox": settings.SANDBOX_ADDRESS}
    return render(request, "tasks.html", context, status=status)


def _task(request: HttpRequest, found: Task, form: StartForm | None = None, status: int = 200) -> HttpResponse:
    job = _last_job(found)
    context = {
        "task": found,
        "job": job,
        "form": form or (again(job) if job is not None else None),
        "sandbox": settings.SANDBOX_ADDRESS,
        "ledger": referee.address_of(job),
        "label": label(found.pk),
    }
    return render(request, "task.html", context, status=status)


def _last_job(found: Task) -> Job | None:
    return Job.objects.filter(task=found).order_by("-pk").first()


def _visible(request: HttpRequest, task_id: int) -> Task:
    try:
        return permissions.get_visible(request.user, task_id)
    except TaskNotFound as problem:
        raise Http404(str(problem)) from problem
