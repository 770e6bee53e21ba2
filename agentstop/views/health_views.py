"""The address for load balancers and monitors: whether this process can tell the truth at this moment."""

from __future__ import annotations

import logging

from django.db import Error, transaction
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from agentstop import database, reconcile

logger = logging.getLogger(__name__)


@transaction.non_atomic_requests(using=database.alias())
@never_cache
@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """200 where the database answers, else 503. Without a login, and so without any number.

    `look_ups` tells whether the follow-up work is done. The status does not depend on it: a site whose worker is down
    shows the truth as far as it is known, and stops agents as ever.
    """
    try:
        overdue = reconcile.overdue()
    except Error:
        logger.exception("the database does not answer", extra={"action": "unhealthy"})
        return JsonResponse({"database": "does not answer", "look_ups": "not known"}, status=503)
    return JsonResponse({"database": "ok", "look_ups": "not running" if overdue else "running"})
