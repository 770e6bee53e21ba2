"""URLs of a project that has forgotten those of agentstop."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
