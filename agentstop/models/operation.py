"""Operation: one external effect asked of a provider."""

from __future__ import annotations

import uuid

from django.db import models
from django.db.models import Q

from agentstop.models.fields import one_of, word_field
from agentstop.models.task import Task
from agentstop.states import FINAL_STATES, OPEN_STATES, Cancellation, OperationState

# One compensation at a time leaves. In other states the lock refuses another one, and not the database: what is heard
# late may show that an earlier one had its effect after all, and must be stored.
LEAVING = [OperationState.PREPARED.value, OperationState.SENDING.value]
OPEN = [state.value for state in OperationState if state in OPEN_STATES]


class Operation(models.Model):
    """One external effect, unique in its task by key and incarnation. Its states are a cache of the fold."""

    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="operations", db_index=False)
    key = models.CharField(max_length=255)
    incarnation = models.PositiveIntegerField(default=1)  # the next one follows on cancelled or undone
    compensates = models.ForeignKey(
        "self", on_delete=models.PROTECT, null=True, blank=True, related_name="compensations"
    )
    connector = models.CharField(max_length=255)
    action = models.CharField(max_length=255)
    digest = models.CharField(max_length=64)  # of the connector, the action and the identifying arguments
    summary = models.TextField(blank=True)  # of the arguments, redacted, for people
    idempotency_key = models.UUIDField(default=uuid.uuid4, unique=True)
    attempts = models.PositiveIntegerField(default=0)  # submits that passed the gate
    lease_until = models.DateTimeField(null=True, blank=True)  # of the last attempt
    resend_until = models.DateTimeField(null=True, blank=True)  # the provider honours the key; null: it does not

    state = word_field(OperationState, default=OperationState.PREPARED)
    state_since = models.DateTimeField()
    cancellation = word_field(Cancellation, default=Cancellation.NONE)
    contradictory = models.BooleanField(default=False)
    doubled = models.BooleanField(default=False)  # different references came back for one key
    another_open = models.BooleanField(default=False, db_default=False)  # succeeded, and another job of it may go on
    cancel_lease_until = models.DateTimeField(null=True, blank=True)  # a request to cancel may arrive until then
    ref = models.TextField(blank=True)  # the provider's name for what was done, else for what may go on
    folded_at = models.DateTimeField()
    due_at = models.DateTimeField(null=True, blank=True)  # when time alone makes the facts say something else

    follow_up_at = models.DateTimeField(null=True, blank=True)  # when to cancel or look up next; also the lease of it
    follow_ups = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField()

    class Meta:
        default_permissions = ("view",)
        permissions = [
            ("compensate_operation", "Can undo what operations of others have done"),
            ("settle_operation", "Can settle unknown outcomes by hand"),
        ]
        indexes = [
            models.Index(fields=["task", "id"], name="agentstop_op_task"),
            models.Index(fields=["task"], condition=Q(state__in=OPEN) | Q(another_open=True), name="agentstop_op_open"),
            models.Index(
                fields=["follow_up_at"], condition=Q(follow_up_at__isnull=False), name="agentstop_op_follow_up"
            ),
        ]
        constraints = [
            one_of("state", OperationState, "agentstop_op_state"),
            one_of("cancellation", Cancellation, "agentstop_op_cancellation"),
            models.UniqueConstraint(fields=["task", "key", "incarnation"], name="agentstop_op_key"),
            models.UniqueConstraint(
                fields=["compensates"],
                condition=Q(state__in=LEAVING),
                name="agentstop_op_one_compensation_at_a_time",
            ),
            models.CheckConstraint(
                name="agentstop_op_cancelled_is_confirmed",
                condition=~Q(cancellation=Cancellation.CONFIRMED) | Q(state=OperationState.CANCELLED),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.action} ({self.key})"

    @property
    def is_final(self) -> bool:
        return self.state in FINAL_STATES

    @property
    def is_open(self) -> bool:
        """Something may still happen on the outside."""
        return self.state in OPEN_STATES or self.another_open
