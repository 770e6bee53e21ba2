"""A host in German, which writes numbers with separators: none of them may get into an id."""

from tests.hosts.settings import *  # noqa: F403

LANGUAGE_CODE = "de"
USE_THOUSAND_SEPARATOR = True
