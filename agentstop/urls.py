"""URLs of the package; include them once: `path("agentstop/", include("agentstop.urls"))`."""

from __future__ import annotations

from django.urls import URLPattern

app_name = "agentstop"

urlpatterns: list[URLPattern] = []
