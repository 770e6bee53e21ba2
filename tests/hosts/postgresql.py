"""A host on PostgreSQL."""

import os
from typing import Any

import dj_database_url

from tests.hosts.settings import *  # noqa: F403

AT: Any = dj_database_url.parse(os.environ["HOST_DATABASE_URL"])
DATABASES = {"default": AT}
