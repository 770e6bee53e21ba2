"""Freezing from the desk: what is asked, and what is counted before anything is held."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django import forms
from django.contrib.auth import get_user_model
from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext, ngettext_lazy
from django.utils.translation import gettext_lazy as _

from agentstop import connectors, database
from agentstop.closing import MAY_GO_ON
from agentstop.freeze import affected, require_meaning
from agentstop.models import Freeze, Operation
from agentstop.models.facts import Effect
from agentstop.reports import freeze_report
from agentstop.reports.remedies import name_of
from agentstop.words import frozen_words

AFFECTED = ngettext_lazy(
    "%(count)d task that runs or waits is affected now. Those that begin or ask for it later are held as well.",
    "%(count)d tasks that run or wait are affected now. Those that begin or ask for it later are held as well.",
    "count",
)
GO_ON = ngettext_lazy(
    "%(count)d operation of them has left, and goes on.",
    "%(count)d operations of them have left, and go on.",
    "count",
)


class FreezeForm(forms.Form):
    """What is to be held, until when and why; what is left empty means any."""

    connector = forms.ChoiceField(label=_("Connector"), required=False)
    action = forms.CharField(
        label=_("Action"), required=False, max_length=255, help_text=_("As the agents name it; empty: any.")
    )
    owner = forms.CharField(label=_("Owner"), required=False, help_text=_("A user name; empty: whoever owns the task."))
    until = forms.DateTimeField(
        label=_("Until"),
        required=False,
        widget=forms.DateTimeInput(attrs={"type": "datetime-local", "step": 1}, format="%Y-%m-%dT%H:%M:%S"),
        help_text=_("Empty: until it is lifted."),
    )
    reason = forms.CharField(
        label=_("Reason"),
        max_length=2000,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text=_("Shown to the owners of what is held, with your name."),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field: Any = self.fields["connector"]
        field.choices = [("", gettext("any")), *((name, name) for name in connectors.names())]

    def clean_owner(self) -> Any:
        name = self.cleaned_data["owner"]
        if not name:
            return None
        model = get_user_model()
        found = model._default_manager.filter(**{model.USERNAME_FIELD: name}).first()
        if found is None:
            raise forms.ValidationError(gettext("There is no user of that name."))
        return found

    def clean_until(self) -> datetime | None:
        until: datetime | None = self.cleaned_data["until"]
        if until is not None and until <= timezone.now():
            raise forms.ValidationError(gettext("That is over already."))
        return until

    def clean(self) -> dict[str, Any]:
        asked = {name: str(self.cleaned_data.get(name, "")) for name in ("connector", "action")}
        try:
            require_meaning(**asked)
        except ValueError as error:
            self.add_error("action", str(error))
        return self.cleaned_data


@dataclass(frozen=True, slots=True)
class Question:
    """What a person is about to hold, counted before anything happens."""

    text: str
    counts: Sequence[str]

    @classmethod
    def of(cls, asked: dict[str, Any]) -> Question:
        scope = {name: asked[name] for name in ("connector", "action", "owner")}
        tasks = affected(**scope)
        named = {name: asked[name] for name in ("connector", "action") if asked[name]}
        left = Operation.objects.using(database.alias()).filter(MAY_GO_ON, task__in=tasks, **named).count()
        counts = [str(AFFECTED % {"count": tasks.count()}), str(GO_ON % {"count": left})]
        owner = name_of(asked["owner"]) if asked["owner"] is not None else None
        return cls(frozen_words.what(asked["connector"], asked["action"], owner), counts)


def with_end(rows: QuerySet[Any]) -> QuerySet[Any]:
    """The rows, each with whether its end has come, as `ended`."""
    found: QuerySet[Any] = rows.annotate(
        ended=ExpressionWrapper(Q(until__lte=Now()) | Q(over_at__isnull=False), output_field=BooleanField())
    )
    return found


def holds(freeze: Any) -> bool:
    """Whether it holds now, or is about to."""
    return freeze.epoch is not None and freeze.lifted_at is None and not freeze.ended


def standing(freeze: Any) -> str:
    """What a row says: a freeze that holds or does no more, one that was denied, or a lift."""
    if freeze.effect == Effect.DENIED:
        return gettext(frozen_words.DENIED)
    if freeze.epoch is None:
        return gettext(frozen_words.NOTED if freeze.effect == Effect.NOTED else frozen_words.DONE)
    if freeze.lifted_at is not None:
        return gettext(frozen_words.LIFTED)
    if freeze.ended:
        return gettext(frozen_words.ENDED)
    return gettext(frozen_words.IN_FORCE if freeze.in_force_at is not None else frozen_words.BEING_PUT_IN_FORCE)


def title(freeze: Freeze) -> str:
    """What a row is about."""
    if freeze.lifts is None:
        return freeze_report.what(freeze)
    return gettext(frozen_words.LIFT) % {"what": freeze_report.what(freeze.lifts)}
