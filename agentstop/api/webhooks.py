"""Webhooks of providers: no token and no session lets them in, but the signature that their connector checks."""

from __future__ import annotations

from django.http import HttpRequest
from ninja import Router

from agentstop import webhooks
from agentstop.api import shapes
from agentstop.api.answers import REFUSALS
from agentstop.api.problems import Problem
from agentstop.providers.base import Webhook
from agentstop.webhooks import Received

router = Router(tags=["webhooks"])

OF_OTHERS = "webhook"  # the address whose senders decide in which form they send
BODY = {"requestBody": {"content": {"application/json": {"schema": {"type": "object"}}}, "required": True}}


@router.post(
    "/{connector}",
    response={200: shapes.ReceivedOut, **REFUSALS},
    auth=None,
    operation_id="webhook",
    url_name=OF_OTHERS,
    openapi_extra=BODY,
)
def receive(request: HttpRequest, connector: str) -> Received:
    """What a provider says by itself, signed as its connector has it. Answered once it is kept.

    404 `not_ours` where it names nothing that is known here, perhaps not yet: deliver it again later.
    """
    headers = {name.lower(): value for name, value in request.headers.items()}
    try:
        return webhooks.receive(connector, Webhook(headers, request.body))
    except ValueError as error:
        raise Problem("invalid", f"webhook: {error}.") from error
