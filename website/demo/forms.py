"""The form that starts the demo's agent."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from website.demo.models import Job
from website.demo.steps import ABOUT_CANCELLING, CANCELLABLE, Step, Trouble


class StartForm(forms.Form):
    """What the agent is asked to do, how fast it is, and what the provider does wrong."""

    topic = forms.CharField(label=_("What should the report be about?"), max_length=100, initial="Quarterly figures")
    channel = forms.CharField(label=_("Which channel is told?"), max_length=60, initial="#team")
    pace = forms.FloatField(
        label=_("Seconds that the agent thinks before each step"),
        min_value=0,
        max_value=60,
        initial=3,
        help_text=_("Time for you to press Stop."),
    )
    asks = forms.BooleanField(label=_("Ask me before the channel is told"), required=False)
    troubled = forms.ChoiceField(
        label=_("At which step?"),
        choices=Step.choices,
        initial=Step.REPORT.value,
        widget=forms.RadioSelect,
        required=False,
    )
    troubles = forms.MultipleChoiceField(
        label=_("The provider …"), choices=Trouble.choices, widget=forms.CheckboxSelectMultiple, required=False
    )

    def __init__(self, data: Any = None, *, initial: dict[str, Any] | None = None) -> None:
        super().__init__(data, initial=initial, label_suffix="")

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        cleaned["troubled"] = cleaned.get("troubled") or Step.REPORT.value
        about_cancelling = ABOUT_CANCELLING.intersection(cleaned.get("troubles", []))
        if about_cancelling and cleaned["troubled"] not in CANCELLABLE:
            self.add_error("troubled", gettext("Only reports can be cancelled at this provider: choose that step."))
        return cleaned


def again(job: Job) -> StartForm:
    """The form to start a task again, filled in with what was asked last."""
    names = ("topic", "channel", "pace", "asks", "troubled", "troubles")
    return StartForm(initial={name: getattr(job, name) for name in names})
