"""What an operator reads about each board: its name, what is on it, and what to do about it. To be translated."""

from __future__ import annotations

from django.utils.translation import gettext_noop as _

TITLES = {
    "look_ups_not_running": _("Look-ups not running"),
    "contradictory": _("Contradictory answers"),
    "undeliverable_cancels": _("Cancels not delivered"),
    "unknown": _("Unknown outcome"),
    "open_after_stop": _("Open after a stop"),
    "no_sign_of_life": _("No sign of life"),
    "frozen": _("Frozen"),
}
ADVICE = {
    "look_ups_not_running": _(
        "Operations wait for more than a minute. Start manage.py agentstop_worker, or Celery's workers and beat where "
        "they do this work."
    ),
    "contradictory": _("Providers have said things that exclude each other. Look there, then settle them by hand."),
    "undeliverable_cancels": _("No request to cancel arrived before its deadline. Cancel at the provider itself."),
    "unknown": _("Nobody knows whether these had their effect. Have the provider asked, or settle them by hand."),
    "open_after_stop": _("Their task is stopped, and they may still have their effect. Look-ups follow them."),
    "no_sign_of_life": _("Runs that should be live and are not heard of. Stop them, or begin them again."),
    "frozen": _("Dispatch that operators hold. Lift it where the reason is gone."),
}
SINCE = _("the oldest since %(since)s")
NOTHING = _("Nothing waits for you.")
