"""The Django app."""

from django.apps import AppConfig


class AgentStopConfig(AppConfig):
    name = "agentstop"
    verbose_name = "AgentStop"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from agentstop import checks, gauges, telemetry  # import models, which are there only now

        checks.register_all()
        gauges.register(telemetry.instruments)
