"""The Django app."""

from django.apps import AppConfig


class AgentStopConfig(AppConfig):
    name = "agentstop"
    verbose_name = "AgentStop"
    default_auto_field = "django.db.models.BigAutoField"
