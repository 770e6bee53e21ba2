"""The Django app."""

from collections.abc import Iterable
from typing import Any

from django.apps import AppConfig
from django.utils.translation import gettext_lazy


class AgentStopConfig(AppConfig):
    name = "agentstop"
    verbose_name = "AgentStop"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from agentstop import checks, gauges, telemetry  # import models, which are there only now

        checks.register_all()
        gauges.register(telemetry.instruments)
        translate(self.get_models())


def translate(models: Iterable[Any]) -> None:
    """Let the names of models and columns follow the reader's language; what migrations know stays as it is written."""
    from agentstop.words.column_words import NAMES

    for model in models:
        named = [(model._meta, "verbose_name"), (model._meta, "verbose_name_plural")]
        named += [(field, "verbose_name") for field in model._meta.local_fields]
        for bearer, attribute in named:
            name = str(getattr(bearer, attribute))
            if name in NAMES:
                setattr(bearer, attribute, gettext_lazy(name))
