"""The addresses of the timeline: a page, and a file to keep."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from agentstop.timeline import drawing
from agentstop.views.addresses import address

# Opened in a browser, the file needs its own styles, and nothing else at all.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"


@address("GET", "HEAD")
def timeline(request: HttpRequest, task: int) -> HttpResponse:
    """The picture of one task, and the same facts as a table."""
    return render(request, "agentstop/timeline.html", drawing.context(task, request.user))


@address("GET", "HEAD")
def timeline_file(request: HttpRequest, task: int) -> HttpResponse:
    """The picture alone, as an SVG file."""
    headers = {
        "Content-Disposition": f'attachment; filename="task-{task}-timeline.svg"',
        "Content-Security-Policy": POLICY,
        "X-Content-Type-Options": "nosniff",
    }
    return HttpResponse(drawing.file(task, request.user), content_type="image/svg+xml; charset=utf-8", headers=headers)
