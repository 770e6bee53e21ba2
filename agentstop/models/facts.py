"""The four tables of facts. Rows are only added; what is written later moves one way."""

from __future__ import annotations

from enum import StrEnum

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Left

from agentstop.bodies import Form
from agentstop.models.fields import one_of, where_there_is, word_field
from agentstop.models.operation import Operation
from agentstop.models.questions import Question
from agentstop.models.task import Task
from agentstop.states import Claim, Source, Verb

REF_BEGINNING = 100  # characters of a reference by which it is found


class Decided(StrEnum):
    """What was decided."""

    START = "start"
    STOP = "stop"
    PAUSE = "pause"
    RESUME = "resume"
    FINISH = "finish"
    FAIL = "fail"
    CANCEL = "cancel"
    COMPENSATE = "compensate"
    SETTLE = "settle"
    FREEZE = "freeze"
    ADD = "add"  # input that a person typed; these three are recorded only where they are denied
    RELEASE = "release"
    WITHDRAW = "withdraw"
    LOOK_UP = "look_up"
    ANSWER = "answer"  # a question
    DECLINE = "decline"  # a question
    RESTORE = "restore"  # a backup: run numbers go on behind those that it does not know of
    ERASE = "erase"  # what was said: that something happened stays
    REFUSE = "refuse"  # the gate's own: nothing was sent


class Effect(StrEnum):
    """What the decision did."""

    APPLIED = "applied"
    NOTED = "noted"  # it changed nothing: repeated, late, or about something that had ended
    DENIED = "denied"  # the person had no right to it


class CallOutcome(StrEnum):
    """What a run got for its request."""

    ACCEPTED = "accepted"  # the result was admitted
    IGNORED = "ignored"  # the run was over: whatever came was kept out
    FAILED = "failed"  # no usable result


class Decision(models.Model):
    """What a person, a policy or the code decided about a task, operation or question; also when it was denied."""

    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="decisions", db_index=False)
    operation = models.ForeignKey(
        Operation, on_delete=models.PROTECT, null=True, blank=True, related_name="decisions", db_index=False
    )
    question = models.ForeignKey(
        Question, on_delete=models.PROTECT, null=True, blank=True, related_name="decisions", db_index=False
    )
    run = models.PositiveIntegerField(null=True, blank=True)  # the run that it named or met
    verb = word_field(Decided)
    effect = word_field(Effect, default=Effect.APPLIED)
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+", db_index=False
    )
    policy = models.CharField(max_length=100, blank=True)  # who decided where no person did
    reason = models.TextField(blank=True)
    cause = models.ForeignKey("self", on_delete=models.PROTECT, null=True, blank=True, related_name="+", db_index=False)
    until = models.DateTimeField(null=True, blank=True)  # the end of what was decided, where it has one
    detail = models.JSONField(default=dict, blank=True)
    count = models.PositiveIntegerField(default=1)  # of a repeated refusal
    at = models.DateTimeField()

    class Meta:
        default_permissions = ("view",)
        indexes = [
            models.Index(fields=["task", "id"], name="agentstop_dec_task"),
            where_there_is("operation", "id", name="agentstop_dec_operation"),
            where_there_is("question", name="agentstop_dec_question"),
            where_there_is("by", name="agentstop_dec_by"),
            where_there_is("cause", name="agentstop_dec_cause"),
        ]
        constraints = [
            one_of("verb", Decided, "agentstop_decision_verb"),
            one_of("effect", Effect, "agentstop_decision_effect"),
            models.UniqueConstraint(
                fields=["operation", "run", "reason"],
                condition=Q(verb=Decided.REFUSE),
                name="agentstop_decision_one_refusal_a_reason",
            ),
            models.UniqueConstraint(
                fields=["question"],
                condition=Q(effect=Effect.APPLIED, question__isnull=False),
                name="agentstop_decision_one_answer_counts",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.verb} {self.effect}"


class Attempt(models.Model):
    """One try to send an operation, or a request to cancel it, recorded before a byte leaves."""

    operation = models.ForeignKey(Operation, on_delete=models.PROTECT, related_name="tries", db_index=False)
    verb = word_field(Verb, default=Verb.SUBMIT)
    number = models.PositiveIntegerField()
    run = models.PositiveIntegerField(null=True, blank=True)  # null: a cancel request, which needs no live run
    passed_at = models.DateTimeField()
    lease_until = models.DateTimeField()
    settling = models.DurationField()  # copied from the connector: the fold needs no configuration
    max_age = models.DurationField()
    ref = models.TextField(blank=True, default="", db_default="")  # of a cancel request: the job that it names
    sender = models.CharField(max_length=255, blank=True)  # host and process, for people
    trace = models.CharField(max_length=55, blank=True, default="", db_default="")  # W3C's traceparent of who asked

    class Meta:
        default_permissions = ("view",)
        constraints = [
            one_of("verb", Verb, "agentstop_attempt_verb"),
            models.UniqueConstraint(fields=["operation", "verb", "number"], name="agentstop_attempt_number"),
        ]

    def __str__(self) -> str:
        return f"{self.verb} {self.number} of {self.operation_id}"


class Receipt(models.Model):
    """One piece of evidence about an operation, or about a request to cancel it."""

    operation = models.ForeignKey(Operation, on_delete=models.PROTECT, related_name="receipts")
    attempt = models.ForeignKey(Attempt, on_delete=models.PROTECT, null=True, blank=True, related_name="receipts")
    claim = word_field(Claim)
    source = word_field(Source)
    asked_at = models.DateTimeField()
    seen_at = models.DateTimeField()
    ref = models.TextField(blank=True)
    body = models.TextField(blank=True)
    form = word_field(Form, default=Form.TEXT)
    size = models.PositiveBigIntegerField(default=0)  # bytes of the whole body
    cut = models.BooleanField(default=False)  # only the beginning of the body is kept
    authoritative = models.BooleanField(default=True)  # of a look-up: "not found" proves absence
    provider_at = models.DateTimeField(null=True, blank=True)  # the provider's own clock, where it told
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    event = models.CharField(max_length=64, blank=True, default="", db_default="")  # digest of a webhook's name for it

    class Meta:
        default_permissions = ("view",)
        indexes = [
            # A webhook names what it is about by its reference alone. The beginning serves: some are long.
            models.Index(Left("ref", REF_BEGINNING), condition=~Q(ref=""), name="agentstop_receipt_ref"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["operation", "event"], condition=~Q(event=""), name="agentstop_receipt_event_once"
            ),
            one_of("claim", Claim, "agentstop_receipt_claim"),
            one_of("source", Source, "agentstop_receipt_source"),
            models.CheckConstraint(
                condition=Q(seen_at__gte=models.F("asked_at")), name="agentstop_receipt_seen_after_asked"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.claim} by {self.source}"


class Call(models.Model):
    """What one run got for its request of an operation's result."""

    operation = models.ForeignKey(Operation, on_delete=models.PROTECT, related_name="calls")
    run = models.PositiveIntegerField()
    outcome = word_field(CallOutcome)
    error = models.TextField(blank=True)
    admitted_at = models.DateTimeField(null=True, blank=True)
    at = models.DateTimeField()

    class Meta:
        default_permissions = ("view",)
        constraints = [
            one_of("outcome", CallOutcome, "agentstop_call_outcome"),
            models.UniqueConstraint(
                fields=["operation", "run"],
                condition=Q(outcome=CallOutcome.ACCEPTED),
                name="agentstop_call_admitted_once",
            ),
            models.CheckConstraint(
                name="agentstop_call_admitted_if_accepted",
                condition=Q(outcome=CallOutcome.ACCEPTED, admitted_at__isnull=False)
                | (~Q(outcome=CallOutcome.ACCEPTED) & Q(admitted_at__isnull=True)),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.outcome} in run {self.run}"
