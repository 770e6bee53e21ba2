"""Django settings of the measuring processes, with Django's tasks on the database."""

from __future__ import annotations

import django

from bench.settings import *  # noqa: F403
from bench.settings import INSTALLED_APPS

INSTALLED_APPS += ["django_tasks_db"] if django.VERSION >= (6, 0) else ["django_tasks", "django_tasks_db"]
TASKS = {"default": {"BACKEND": "django_tasks_db.DatabaseBackend"}}
ROOT_URLCONF = __name__  # Celery's worker has the site checked
urlpatterns: list[object] = []
