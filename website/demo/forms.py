"""The form that starts the demo's agent."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from website.demo.models import WISHES, Job
from website.demo.steps import ABOUT_CANCELLING, CANCELLABLE, Kind, Step, Trouble


class StartForm(forms.Form):
    """What the agent is asked to do, how fast it is, and what the provider does wrong."""

    kind = forms.ChoiceField(
        label=_("What should the agent do?"),
        choices=Kind.choices,
        initial=Kind.REPORT.value,
        widget=forms.RadioSelect,
        required=False,
    )
    topic = forms.CharField(label=_("What should it be about?"), max_length=100, initial="Quarterly figures")
    channel = forms.CharField(
        label=_("Which channel is told?"), max_length=60, initial="#team", help_text=_("Of a report; not of a note.")
    )
    pace = forms.FloatField(
        label=_("Seconds that the agent thinks before each step"),
        min_value=0,
        max_value=60,
        initial=3,
        help_text=_("Time for you to press Stop."),
    )
    asks = forms.BooleanField(label=_("Ask me before the last step"), required=False)
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
        offered = [kind for kind in Kind if _is_there(kind)]
        if len(offered) > 1:
            self.fields["kind"] = _kinds(self.fields["kind"], offered)
        else:
            del self.fields["kind"]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        cleaned["kind"] = cleaned.get("kind") or Kind.REPORT.value
        cleaned["troubled"] = cleaned.get("troubled") or Step.REPORT.value
        if cleaned["kind"] == Kind.NOTE and cleaned.get("troubles"):
            text = gettext("Only the provider over HTTP can be made to misbehave: leave this out for a note.")
            self.add_error("troubles", text)
        about_cancelling = ABOUT_CANCELLING.intersection(cleaned.get("troubles", []))
        if about_cancelling and cleaned["troubled"] not in CANCELLABLE:
            self.add_error("troubled", gettext("Only reports can be cancelled at this provider: choose that step."))
        return cleaned


def _is_there(kind: Kind) -> bool:
    """Whether what it is done with runs here."""
    needs = {Kind.NOTE: settings.NOTES_ADDRESS, Kind.CHAIN: settings.BROKER, Kind.TASKS: settings.HAS_DJANGO_TASKS}
    return bool(needs.get(kind, True))


def _kinds(field: Any, offered: list[Kind]) -> Any:
    field.choices = [(kind.value, kind.label) for kind in offered]
    if Kind.CHAIN not in offered:
        field.help_text = gettext("For a chain of Celery jobs install redis-server, and start the demo again.")
    return field


def again(job: Job) -> StartForm:
    """The form to start a task again, filled in with what was asked last."""
    return StartForm(initial={name: getattr(job, name) for name in WISHES})
