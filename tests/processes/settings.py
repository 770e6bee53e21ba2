"""The settings of the tests, with a connector that is only a name."""

from tests.settings import *  # noqa: F403

AGENTSTOP_CONNECTORS: dict[str, dict[str, str]] = {"tools": {}}
