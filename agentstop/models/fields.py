"""Choices from the vocabulary, the constraint that keeps a column inside it, indexes of what is often empty."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from django.db import models
from django.db.models import Q


def word_field(vocabulary: type[StrEnum], **options: Any) -> models.CharField[Any, Any]:
    """A column that holds one word of a vocabulary."""
    return models.CharField(max_length=20, choices=[(word.value, word.value) for word in vocabulary], **options)


def one_of(field: str, vocabulary: Iterable[str], name: str) -> models.CheckConstraint:
    """The database itself refuses a word that is not in the vocabulary."""
    return models.CheckConstraint(condition=Q(**{f"{field}__in": [str(word) for word in vocabulary]}), name=name)


def where_there_is(field: str, *more: str, name: str) -> models.Index:
    """An index of the rows that have a value there: the many that have none pay nothing for it."""
    return models.Index(fields=[field, *more], condition=Q(**{f"{field}__isnull": False}), name=name)
