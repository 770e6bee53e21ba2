"""Django settings of the measured site: that of the tests, with connections that stay open."""

from __future__ import annotations

from tests.settings import *  # noqa: F403
from tests.settings import DATABASES

DATABASES["default"] |= {"CONN_MAX_AGE": None}
