"""What the admin asks before it stops many tasks at once."""

from __future__ import annotations

import re

from django import forms
from django.utils.translation import gettext_lazy as _

from agentstop.reports.bulk_report import PAIRS, pairs_of


class StopForm(forms.Form):
    """What a person confirms. `tasks` is one field, "id:run id:run": the number of fields of a form is limited."""

    tasks = forms.RegexField(rf"\A{PAIRS.pattern}\Z", widget=forms.HiddenInput)
    reason = forms.CharField(
        label=_("Reason"),
        required=False,
        max_length=2000,
        widget=forms.Textarea(attrs={"rows": 3, "autofocus": True}),
        help_text=_("Shown to the owners of the tasks, with your name."),
    )

    def clean_tasks(self) -> dict[int, int]:
        return pairs_of(str(self.cleaned_data["tasks"]))

    def chosen(self) -> list[int]:
        """The ids of the tasks; none where the field is unreadable."""
        return list(self.cleaned_data.get("tasks", {}))


def task_ids(text: str) -> list[int]:
    """The task that an address names; none where that is unreadable."""
    return [int(text)] if re.fullmatch(r"[0-9]{1,18}", text) else []
