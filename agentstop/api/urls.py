"""The API's addresses: `path("api/", include("agentstop.api.urls"))`. Needs the extra `agentstop[api]`.

`agentstop_api:openapi-json` is the published schema.
"""

from __future__ import annotations

from django.urls import re_path

from agentstop.api.doors import door, nowhere
from agentstop.api.mount import patterns

app_name = "agentstop_api"

urlpatterns = [*patterns(), re_path(r"^.*$", door(nowhere, {}), name="nowhere")]
