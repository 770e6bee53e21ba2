"""A provider over HTTP: one shared client, each request sent once, nothing claimed that the replies do not prove."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import replace
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpx
from django.core.exceptions import ImproperlyConfigured

from agentstop import __version__
from agentstop.providers.base import (
    Answer,
    BeforeWrite,
    CancelReply,
    Capability,
    Context,
    LookUp,
    Provider,
    Submission,
    SubmitIdempotency,
)
from agentstop.providers.http_action import BODILESS, HttpAction, checked_actions, fields, fill, with_field
from agentstop.providers.http_answers import cancelled, looked_up, origin, submitted
from agentstop.providers.http_exchange import NoReply, Reply, exchange
from agentstop.states import Claim, Source

__all__ = ["HttpAction", "HttpProvider"]

FORMATS = ("bare", "quoted")


class HttpProvider(Provider):
    """An HTTP API as options describe it; see `HttpAction` for what one action can say about itself.

    It never follows a redirect, never retries, keeps no cookies, reads no proxy from the environment, and sends its
    headers to no other origin than that of `base_url`.

    A connection carries one request, unless `keep_alive`: an idle one may be closed just as the next request is
    written, which makes an operation unknown that never arrived, and bytes behind one reply would be read as the
    reply to the next request.
    """

    def __init__(
        self,
        *,
        base_url: str,
        actions: Mapping[str, HttpAction],
        headers: Mapping[str, str] | None = None,
        idempotency_header: str = "Idempotency-Key",
        idempotency_format: str = "bare",  # "quoted": as a string of a structured field
        connect_timeout: float = 5.0,
        body_cap: int = 1_000_000,  # bytes of a reply that are read
        max_connections: int = 100,
        keep_alive: bool = False,
        verify: bool | ssl.SSLContext = True,
    ) -> None:
        self.base = _checked_url(base_url)
        self.actions = checked_actions(actions)
        self.headers = _checked_headers(headers or {})
        _check_header_name(idempotency_header)
        if idempotency_format not in FORMATS:
            raise ImproperlyConfigured(
                f"HttpProvider idempotency_format is {idempotency_format!r}: use one of {', '.join(FORMATS)}."
            )
        for name, number in (("connect_timeout", connect_timeout), ("body_cap", body_cap)):
            if not number > 0:
                raise ImproperlyConfigured(f"HttpProvider {name} is {number!r}: pass a number above 0.")
        self.idempotency_header, self.idempotency_format = idempotency_header, idempotency_format
        self.connect_timeout, self.body_cap = connect_timeout, body_cap
        self.max_connections, self.keep_alive, self.verify = max_connections, keep_alive, verify
        self._client: httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def capability(self, action: str) -> Capability:
        """What this action can do about its effects."""
        return self._action(action).capability

    def known_actions(self) -> tuple[str, ...]:
        return tuple(sorted(self.actions))

    async def submit(self, submission: Submission, context: Context) -> Answer:
        """Send it once; the pass is tested when the connection stands and before the first byte is written."""
        try:
            action = self._action(submission.action)
            request = self._submit_request(action, submission)
        except (LookupError, TypeError, ValueError) as error:
            return Answer(Claim.UNSENT, Source.SENDER, body=f"Nothing was sent: {error}.")
        return submitted(action, await self._exchange(request, context.deadline, context.before_write))

    async def look_up(self, submission: Submission, *, deadline: float) -> Answer | None:
        """Ask what became of it; None where it cannot be asked, or the reply tells no state."""
        action = self._action(submission.action)
        if action.capability.look_up is LookUp.NONE:
            return None
        try:
            request = self._request("GET", self._followed(action.look_up_path, submission))
        except ValueError:
            return None
        answer = looked_up(action, await self._exchange(request, deadline))
        return _about(answer, action.look_up_path, submission)

    async def cancel(self, submission: Submission, context: Context) -> CancelReply:
        """Ask the provider to give the operation up, once; a request that has slept too long is not sent."""
        action = self._action(submission.action)
        if not action.cancel_path:
            return CancelReply(Claim.UNSENT, body=f"Nothing was sent: {submission.action} cannot be cancelled.")
        try:
            request = self._request(action.cancel_method, self._followed(action.cancel_path, submission))
        except ValueError as error:
            return CancelReply(Claim.UNSENT, body=f"Nothing was sent: {error}.")
        reply = cancelled(action, await self._exchange(request, context.deadline, context.before_write))
        return replace(reply, answer=_about(reply.answer, action.cancel_path, submission))

    async def aclose(self) -> None:
        """Close all connections; a later call opens new ones."""
        client, self._client = self._client, None
        if client is not None and self._loop is asyncio.get_running_loop():
            await client.aclose()

    def _action(self, name: str) -> HttpAction:
        if name not in self.actions:
            known = ", ".join(sorted(self.actions))
            raise LookupError(f"no action {name!r} at {self.base.host}: use one of {known}, or add it to the options")
        return self.actions[name]

    def _here(self) -> httpx.AsyncClient:
        """The client of the running loop: sockets belong to the loop that opened them."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            self._loop = loop
            self._client = httpx.AsyncClient(
                headers={**self._own_headers(), **self.headers},
                timeout=httpx.Timeout(None, connect=self.connect_timeout),
                limits=httpx.Limits(
                    max_connections=self.max_connections,
                    max_keepalive_connections=self.max_connections if self.keep_alive else 0,
                ),
                follow_redirects=False,
                trust_env=False,
                # Reading the certificate authorities takes a tenth of a second: not where there is no TLS.
                verify=self.verify if self.base.scheme == "https" else False,
                # One task's cookies must not travel with another's request.
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            )
        return self._client

    def _own_headers(self) -> dict[str, str]:
        return {
            "user-agent": f"agentstop/{__version__}",
            "accept-encoding": "identity",
            "connection": "keep-alive" if self.keep_alive else "close",
        }

    async def _exchange(
        self, request: httpx.Request, deadline: float, before_write: BeforeWrite | None = None
    ) -> Reply | NoReply:
        return await exchange(self._here(), request, deadline=deadline, cap=self.body_cap, before_write=before_write)

    def _submit_request(self, action: HttpAction, submission: Submission) -> httpx.Request:
        values = {**submission.args, "key": submission.idempotency_key}
        url = self._url(fill(action.path, values))
        taken = fields(action.path) - {"key"}
        rest = {name: value for name, value in submission.args.items() if name not in taken}
        if action.key_field:
            rest = with_field(rest, action.key_field, submission.idempotency_key)
        headers = {}
        if action.capability.submit is SubmitIdempotency.KEY:
            headers[self.idempotency_header] = self._formatted(submission.idempotency_key)
        if action.method.upper() in BODILESS:
            return self._request(action.method, url.copy_merge_params(rest), headers=headers)
        return self._request(action.method, url, headers=headers, json=rest)

    def _request(self, method: str, url: httpx.URL, **rest: Any) -> httpx.Request:
        return self._here().build_request(method.upper(), url, **rest)

    def _url(self, path: str) -> httpx.URL:
        return httpx.URL(str(self.base).rstrip("/") + path)

    def _followed(self, template: str, submission: Submission) -> httpx.URL:
        """Where to ask about an operation; a ValueError where that is unknown, or on another origin than ours."""
        if "{ref}" in template and not submission.ref:
            raise ValueError("the provider's reference is not known yet")
        if template != "{ref}":
            known = {**submission.args, "key": submission.idempotency_key, "ref": submission.ref}
            return self._url(fill(template, known))
        try:
            url = self.base.join(submission.ref)
        except httpx.InvalidURL:
            raise ValueError("the provider's reference is no address") from None
        if origin(url) != origin(self.base):
            raise ValueError("the provider's reference is on another origin, where our headers must not go")
        return url.copy_with(userinfo=b"")

    def _formatted(self, key: str) -> str:
        if not (key.isascii() and key.isprintable()):
            raise ValueError("the idempotency key cannot stand in a header: use printable ASCII")
        if self.idempotency_format == "bare":
            return key
        escaped = key.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'


def _about(answer: Answer | None, template: str, submission: Submission) -> Answer | None:
    """The answer with the reference it was asked by, where it tells none itself."""
    if answer is None or answer.ref or "{ref}" not in template:
        return answer
    return replace(answer, ref=submission.ref)


def _checked_url(text: str) -> httpx.URL:
    try:
        url = httpx.URL(text)
    except (httpx.InvalidURL, TypeError):
        url = httpx.URL("")
    if url.scheme not in {"http", "https"} or not url.host:
        raise ImproperlyConfigured("HttpProvider base_url is no address: pass one like https://api.example.org/v1.")
    if url.userinfo or url.query or url.fragment:
        raise ImproperlyConfigured(
            "HttpProvider base_url holds a login, query or fragment: leave it out, and put credentials into headers."
        )
    return url


def _checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        _check_header_name(name)
        # The value may be a secret: it is never told.
        if not (isinstance(value, str) and value.isascii() and value.isprintable()):
            raise ImproperlyConfigured(f"HttpProvider header {name!r} has a value that cannot be sent: use ASCII text.")
    return dict(headers)


def _check_header_name(name: str) -> None:
    if not (isinstance(name, str) and name.isascii() and name.replace("-", "").replace("_", "").isalnum()):
        raise ImproperlyConfigured(f"HttpProvider header name {name!r} is none: use letters, digits and hyphens.")
