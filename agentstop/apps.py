"""The Django app."""

import logging
from collections.abc import Iterable
from typing import Any

from django.apps import AppConfig
from django.utils.module_loading import import_string
from django.utils.translation import gettext_lazy

logger = logging.getLogger(__name__)


class AgentStopConfig(AppConfig):
    name = "agentstop"
    verbose_name = "AgentStop"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from agentstop import checks, gauges, telemetry  # import models, which are there only now

        checks.register_all()
        gauges.register(telemetry.instruments)
        translate(self.get_models())
        _set_up_celery()


def _set_up_celery() -> None:
    """For the application of the settings. What is wrong with it keeps no site from starting; the checks say it too."""
    from agentstop import conf

    if conf.CELERY_APP:
        try:
            from agentstop.integrations.celery import follow_ups

            follow_ups.set_up(import_string(conf.CELERY_APP))
        except Exception:
            extra = {"action": "celery_unusable"}
            logger.exception("AGENTSTOP_CELERY_APP cannot be used: no follow-up work is done by it", extra=extra)


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
