"""Times in the zone of the reader's browser, which it tells in a cookie; in the site's own until it has."""

from __future__ import annotations

from collections.abc import Callable
from datetime import tzinfo
from urllib.parse import unquote
from zoneinfo import ZoneInfo

from django.http import HttpRequest, HttpResponse
from django.utils import timezone


class ReaderZoneMiddleware:
    """Answers each request in its reader's zone."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with timezone.override(zone_of(request.COOKIES.get("zone", ""))):
            return self.get_response(request)


def zone_of(name: str) -> tzinfo:
    """The zone of that name; the site's own where there is none."""
    try:
        return ZoneInfo(unquote(name))
    except (ValueError, OSError, KeyError):  # a cookie may hold anything
        return timezone.get_default_timezone()
