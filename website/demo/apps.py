"""The Django app of the demo."""

from django.apps import AppConfig


class DemoConfig(AppConfig):
    name = "website.demo"
    label = "demo"
    verbose_name = "Demo"
    default_auto_field = "django.db.models.BigAutoField"
