"""A user of the host's own, named by mail address, with a key that is no number; and what tasks are about."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.contrib.auth.models import AbstractBaseUser, BaseUserManager, PermissionsMixin
from django.db import models


class People(BaseUserManager["Person"]):
    def create_user(self, email: str, password: str | None = None) -> Person:
        person = self.model(email=email)
        person.set_password(password)
        person.save(using=self._db)
        return person


class Person(AbstractBaseUser, PermissionsMixin):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    email = models.EmailField(unique=True)
    is_active = models.BooleanField(default=True)
    is_staff = models.BooleanField(default=False)
    objects = People()
    USERNAME_FIELD = "email"


class Conversation(models.Model):
    """What a task of this host is about."""

    topic = models.CharField(max_length=100)
    objects: ClassVar[models.Manager[Conversation]] = models.Manager()

    def __str__(self) -> str:
        return self.topic
