"""A host whose requests are transactions."""

from tests.hosts.settings import *  # noqa: F403
from tests.hosts.settings import database

DATABASES = {"default": database("host", ATOMIC_REQUESTS=True)}
SILENCED_SYSTEM_CHECKS = ["agentstop.W001"]  # its views are marked
