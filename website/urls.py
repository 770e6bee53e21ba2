"""The addresses of this site."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.auth.views import LoginView, LogoutView
from django.urls import URLPattern, URLResolver, include, path

from website import views

urlpatterns: list[URLPattern | URLResolver] = [
    path("", views.tasks, name="tasks"),
    path("start/", views.start, name="start"),
    path("tasks/<int:task_id>/", views.task, name="task"),
    path("tasks/<int:task_id>/start/", views.start_again, name="start_again"),
    path("login/", LoginView.as_view(redirect_authenticated_user=True), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("agentstop/", include("agentstop.urls")),
    path("admin/", admin.site.urls),
]
