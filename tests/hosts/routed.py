"""A host with two databases: agents, and the people and sessions that they belong to, are not in the default one."""

from typing import Any

from tests.hosts.settings import *  # noqa: F403
from tests.hosts.settings import database

DATABASES = {"default": database("host"), "agents": database("agents")}
DATABASE_ROUTERS = ["tests.hosts.routed.Router"]
TOGETHER = {"agentstop", "people", "auth", "contenttypes", "sessions", "admin"}


class Router:
    """All that agentstop refers to is where it is."""

    def db_for_read(self, model: Any, **hints: Any) -> str:
        return "agents" if model._meta.app_label in TOGETHER else "default"

    db_for_write = db_for_read

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool:
        return db == ("agents" if app_label in TOGETHER else "default")
