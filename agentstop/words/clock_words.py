"""How times are written, as formats of Django's `date` filter: a language orders and points them in its own way."""

from __future__ import annotations

from django.utils.translation import gettext_noop as _

DAY = _("j M Y")
DAY_OF_A_YEAR = _("j M")
TODAY = _("H:i:s")
ANOTHER_DAY = _("j M Y, H:i:s")
TO_THE_SECOND = _("Y-m-d H:i:s")
IN_FULL = _("j F Y, H:i:s T")
