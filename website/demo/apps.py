"""The Django app of the demo."""

from django.apps import AppConfig
from django.conf import settings


class DemoConfig(AppConfig):
    name = "website.demo"
    label = "demo"
    verbose_name = "Demo"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from website import notices  # reads models, which are there only now

        if getattr(settings, "MAILS_SETTLEMENTS", False):
            notices.switch_on()
