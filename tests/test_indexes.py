"""Each index is written with every row, under the lock that a stop waits for: no column has one that it can spare."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.apps import apps
from django.db import models

MODELS = list(apps.get_app_config("agentstop").get_models())


def beginnings(model: type[models.Model]) -> Iterator[str]:
    """The first column of each index that holds all rows, or all that have a value in that column."""
    whole = {None, *(repr(models.Q(**{f"{field.name}__isnull": False})) for field in model._meta.concrete_fields)}
    for index in model._meta.indexes:
        if index.condition is None or repr(index.condition) in whole:
            yield index.fields[0].removeprefix("-")
    for constraint in model._meta.constraints:
        if isinstance(constraint, models.UniqueConstraint) and constraint.condition is None:
            yield constraint.fields[0]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_no_column_has_an_index_of_its_own_where_another_one_begins_with_it(model: type[models.Model]) -> None:
    of_their_own = {field.name for field in model._meta.concrete_fields if getattr(field, "db_index", False)}
    assert of_their_own.isdisjoint(beginnings(model))


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_reference_can_be_looked_up(model: type[models.Model]) -> None:
    """Whoever deletes a user or reads what belongs to a task would read all rows otherwise."""
    references = {field.name for field in model._meta.concrete_fields if field.is_relation}
    of_their_own = {
        field.name for field in model._meta.concrete_fields if getattr(field, "db_index", False) or field.unique
    }
    assert references <= of_their_own | set(beginnings(model))
