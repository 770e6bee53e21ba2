"""What the admin asks before it settles or undoes operations, and before their providers are asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from agentstop.models import Operation
from agentstop.reports.bulk_report import PAIRS, pairs_of
from agentstop.words import remedy_words, sentences

ROWS = 50  # operations of which each can be settled by a word of its own: the number of fields of a form is limited
REASON = 2000


class RemedyForm(forms.Form):
    """What a person confirms. `operations` is one field, "id:attempts id:attempts"."""

    operations = forms.RegexField(rf"\A{PAIRS.pattern}\Z", widget=forms.HiddenInput)

    def clean_operations(self) -> dict[int, int]:
        return pairs_of(str(self.cleaned_data["operations"]))

    def named(self) -> dict[int, int]:
        """The operations, each with how often it had been sent; none where the field is unreadable."""
        found: dict[int, int] = self.cleaned_data.get("operations", {})
        return found


class UndoForm(RemedyForm):
    """Undoing needs no reason."""

    reason = forms.CharField(
        label=_("Reason (optional)"),
        required=False,
        max_length=REASON,
        widget=forms.Textarea(attrs={"rows": 3, "autofocus": True}),
    )


def _outcomes() -> list[tuple[str, str]]:
    return [("", gettext(remedy_words.NO_OUTCOME)), *((key, gettext(name)) for key, name in sentences.OUTCOMES.items())]


class SettleForm(RemedyForm):
    """An outcome and the evidence for it: for all, and for each of a few by itself, which then decides."""

    outcome = forms.ChoiceField(label=_("Outcome"), required=False, choices=_outcomes)
    reason = forms.CharField(
        label=_("On what evidence"),
        required=False,
        max_length=REASON,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text=_("What was seen, and where. It is kept beside each of them, with your name."),
    )

    def __init__(self, *args: Any, rows: Sequence[Operation] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.rows = rows if 1 < len(rows) <= ROWS else ()
        for row in self.rows:
            label = {"aria-label": f"{gettext(remedy_words.OUTCOME)}: {row}"}
            why = {"aria-label": f"{gettext(remedy_words.EVIDENCE)}: {row}", "rows": 2}
            self.fields[f"outcome-{row.pk}"] = forms.ChoiceField(
                required=False, choices=_outcomes, widget=forms.Select(attrs=label)
            )
            self.fields[f"reason-{row.pk}"] = forms.CharField(
                required=False, max_length=REASON, widget=forms.Textarea(attrs=why)
            )

    def of_each(self) -> list[tuple[Operation, forms.BoundField, forms.BoundField]]:
        """The operations with the fields that are theirs."""
        return [(row, self[f"outcome-{row.pk}"], self[f"reason-{row.pk}"]) for row in self.rows]

    def clean(self) -> dict[str, Any]:
        given = self.cleaned_data
        whole = [self._is_whole(given, "")]
        whole += [self._is_whole(given, f"-{row.pk}") for row in self.rows]
        if not any(whole) and not self.errors:
            raise forms.ValidationError(gettext(remedy_words.SAY_SOMETHING))
        return given

    def _is_whole(self, given: Mapping[str, Any], of: str) -> bool:
        """Whether a word is given; one without evidence, or evidence for nothing, is asked for again."""
        outcome, reason = given.get(f"outcome{of}"), str(given.get(f"reason{of}") or "").strip()
        if outcome and not reason:
            self.add_error(f"reason{of}", gettext(sentences.WHICH_EVIDENCE))
        if reason and not outcome:
            self.add_error(f"outcome{of}", gettext(sentences.WHICH_OUTCOME))
        return bool(outcome and reason)

    def said(self, operation: int) -> tuple[str, str] | None:
        """What is said of one operation: its own word, else that for all."""
        for of in (f"-{operation}", ""):
            if self.cleaned_data.get(f"outcome{of}"):
                return self.cleaned_data[f"outcome{of}"], self.cleaned_data[f"reason{of}"]
        return None


FORMS: dict[str, type[RemedyForm]] = {"check": RemedyForm, "settle": SettleForm, "undo": UndoForm}
