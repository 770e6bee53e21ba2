"""Freezes: what an operator holds for everybody, and the clock that tells tasks and processes apart from older ones."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Q

from agentstop.models.facts import Effect
from agentstop.models.fields import one_of, word_field


class FreezeClock(models.Model):
    """One row, the first of all locks: whoever lets a task become active shares it, whoever freezes has it alone."""

    epoch = models.PositiveBigIntegerField(default=0)  # of the last freeze; grows, also over a restored backup

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"epoch {self.epoch}"


class Freeze(models.Model):
    """A decision to hold dispatch of a connector, an action or an owner (blank: any), or to lift such a hold.

    Also when it was denied. What is written later is written once: `in_force_at`, `lifted_at`, `over_at`.
    """

    connector = models.CharField(max_length=255, blank=True)
    action = models.CharField(max_length=255, blank=True)
    of_owner = models.BooleanField(default=False)  # of one owner's tasks only, and of nobody's once the owner is gone
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    lifts = models.ForeignKey("self", on_delete=models.PROTECT, null=True, blank=True, related_name="liftings")
    effect = word_field(Effect, default=Effect.APPLIED)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    policy = models.CharField(max_length=100, blank=True)  # who decided where no person did
    reason = models.TextField(blank=True)
    until = models.DateTimeField(null=True, blank=True)  # null: until it is lifted
    at = models.DateTimeField()
    epoch = models.PositiveBigIntegerField(null=True, blank=True)  # the clock's, where it was applied
    in_force_at = models.DateTimeField(null=True, blank=True)  # after the last task was reached
    lifted_at = models.DateTimeField(null=True, blank=True)
    over_at = models.DateTimeField(null=True, blank=True)  # a gate was the first to find that its end had come

    class Meta:
        default_permissions = ("view",)
        permissions = [("freeze_dispatch", "Can hold dispatch of a connector, an action, an owner or everything")]
        indexes = [
            models.Index(
                fields=["id"],
                condition=Q(epoch__isnull=False, lifted_at__isnull=True, over_at__isnull=True),
                name="agentstop_freeze_unlifted",
            ),
        ]
        constraints = [
            one_of("effect", Effect, "agentstop_freeze_effect"),
            models.CheckConstraint(
                name="agentstop_freeze_owner_is_meant", condition=Q(owner__isnull=True) | Q(of_owner=True)
            ),
            models.CheckConstraint(
                name="agentstop_freeze_has_an_epoch",
                condition=Q(epoch__isnull=True) | Q(effect=Effect.APPLIED, lifts__isnull=True),
            ),
            models.CheckConstraint(
                name="agentstop_freeze_in_force_has_an_epoch",
                condition=Q(epoch__isnull=False)
                | Q(in_force_at__isnull=True, lifted_at__isnull=True, over_at__isnull=True),
            ),
        ]

    def __str__(self) -> str:
        return " ".join(filter(None, [self.action, self.connector and f"→ {self.connector}", self._of()])) or "*"

    def _of(self) -> str:
        return f"({self.owner or '?'})" if self.of_owner else ""

    def has_ended(self, now: datetime) -> bool:
        """Whether its end has come, by the clock or since a gate found so."""
        return self.over_at is not None or (self.until is not None and self.until <= now)

    def covers(self, connector: str, action: str, owner_id: Any) -> bool:
        """Whether it is about this action at this connector for tasks of this owner."""
        return (
            self.connector in ("", connector)
            and self.action in ("", action)
            and (not self.of_owner or (self.owner_id is not None and self.owner_id == owner_id))
        )
