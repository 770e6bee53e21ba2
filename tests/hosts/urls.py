"""The host's pages, and agentstop below a folder of its own."""

from __future__ import annotations

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path

from tests.hosts import views

urlpatterns: list[URLPattern | URLResolver] = [
    path("page/<str:kind>/<int:conversation>/", views.page),
    path("piece/<int:conversation>/", views.piece),
    path("enter/", views.enter),
    path("start/", views.start),
    path("act/<int:task>/", views.act),
    path("admin/", admin.site.urls),
    path("agentstop/", include("agentstop.urls")),
]
