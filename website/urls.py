"""The addresses of this site."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.auth.views import LoginView, LogoutView
from django.templatetags.static import static
from django.urls import URLPattern, URLResolver, include, path
from django.views.generic import RedirectView

from website import views

urlpatterns: list[URLPattern | URLResolver] = [
    path("", views.tasks, name="tasks"),
    path("start/", views.start, name="start"),
    path("tasks/<int:task_id>/", views.task, name="task"),
    path("tasks/<int:task_id>/ledger/", views.ledger, name="ledger"),
    path("tasks/<int:task_id>/start/", views.start_again, name="start_again"),
    path("login/", LoginView.as_view(redirect_authenticated_user=True), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("admin/", admin.site.urls),
    path("favicon.ico", RedirectView.as_view(url=static("icon.svg"))),
    path("api/", include("agentstop.api.urls")),
    path("", include("agentstop.urls")),  # after this site's own page of a task, which has the same address
]
