"""A host's own Content-Security-Policy: nothing inline, nothing from elsewhere; with a nonce where the address asks."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

SELF = (
    "default-src 'none'; script-src {scripts}; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'self'; require-trusted-types-for 'script'; trusted-types agentstop host"
)


class PolicyMiddleware:
    """Sets `request.csp_nonce`, as django-csp does, where scripts run by their nonce alone."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        scripts = "'self'"
        if "nonce" in request.GET:
            request.csp_nonce = secrets.token_urlsafe(16)  # type: ignore[attr-defined]
            scripts = f"'nonce-{request.csp_nonce}'"  # type: ignore[attr-defined]
        response = self.get_response(request)
        policy = SELF.format(scripts=scripts)
        if "htmx" in request.path:  # which puts in what it has fetched as text
            policy = policy.partition("; require-trusted")[0]
        response.headers["Content-Security-Policy"] = policy
        return response
