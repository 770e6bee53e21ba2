"""ServiceToken: what an application shows to be let in over HTTP."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from agentstop.models.fields import where_there_is


class ServiceToken(models.Model):
    """One application's way in: it acts with the rights of `user`, within its scopes, until it ends or is revoked.

    Only a fingerprint is stored. The token itself is shown once, to whoever makes it.
    """

    application = models.CharField(max_length=100)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    scopes = models.JSONField(default=list)
    connectors = models.JSONField(default=list, blank=True)  # by name, whose operations its runs may send; "*": any
    name = models.CharField(max_length=16, unique=True)  # the public part of the token
    fingerprint = models.CharField(max_length=64)  # of the whole of it
    made_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+", db_index=False
    )
    made_at = models.DateTimeField()
    until = models.DateTimeField(null=True, blank=True)  # null: until it is revoked
    revoked_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+", db_index=False
    )
    revoked_at = models.DateTimeField(null=True, blank=True)
    used_at = models.DateTimeField(null=True, blank=True)  # to the minute

    class Meta:
        default_permissions = ("add", "view")
        permissions = [("revoke_servicetoken", "Can revoke service tokens")]
        indexes = [
            where_there_is("made_by", name="agentstop_token_made_by"),
            where_there_is("revoked_by", name="agentstop_token_revoked_by"),
        ]

    def __str__(self) -> str:
        return f"{self.application} ({self.name})"
