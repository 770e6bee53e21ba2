"""The smallest site that embeds agentstop: its pages, its API and the admin."""

from __future__ import annotations

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path

urlpatterns: list[URLPattern | URLResolver] = [
    path("admin/", admin.site.urls),
    path("accounts/", include("django.contrib.auth.urls")),
    path("api/", include("agentstop.api.urls")),
    path("", include("agentstop.urls")),
]
