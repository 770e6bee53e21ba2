"""python -m tests.integrations.django_tasks: `worker`, in a process of its own."""

from __future__ import annotations

import django

if __name__ == "__main__":
    django.setup()  # before anything that has models is imported
    from tests.integrations.django_tasks.worker import Works

    Works().listen()
