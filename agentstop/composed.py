"""Queries whose SQL is composed once: for most of them Django composes longer than the database looks."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from django.db import connections
from django.db.models import QuerySet
from django.db.models.sql import Query
from django.db.models.sql.compiler import SQLCompiler

R = TypeVar("R")

MOST = 512  # ids that one statement names: as many as the operations of one picture
HOLE = -2_000_000_000  # and the numbers below it stand for ids; no row has one of them


class Composed(Generic[R]):
    """The rows of a query for any ids. `query` gives it for some; nothing else in it may change from call to call."""

    def __init__(self, query: Callable[[Sequence[int]], QuerySet[Any, R]]) -> None:
        self._query = query
        self._composed: dict[tuple[str, str, int], tuple[QuerySet[Any, R], SQLCompiler, str, tuple[Any, ...]]] = {}

    def rows(self, ids: Sequence[int], using: str) -> list[R]:
        """What the query finds for these ids, in one statement for each 512 of them."""
        return [row for at in range(0, len(ids), MOST) for row in self._rows(ids[at : at + MOST], using)]

    def _rows(self, ids: Sequence[int], using: str) -> Iterator[R]:
        size = 1 << (len(ids) - 1).bit_length()  # few sizes: the last id is named as often as it takes
        queryset, compiler, sql, params = self._for(size, using)
        named = dict(zip(_holes(size), [*ids, *[ids[-1]] * (size - len(ids))], strict=True))
        filled = tuple(type(each)(named.get(each, each)) if isinstance(each, int) else each for each in params)
        found = queryset.all()
        found.query.filled = _filled(compiler, using, sql, filled)  # type: ignore[attr-defined]
        return iter(found)

    def _for(self, size: int, using: str) -> tuple[QuerySet[Any, R], SQLCompiler, str, tuple[Any, ...]]:
        key = (using, connections[using].vendor, size)
        if key not in self._composed:
            composed = _compose(self._query(_holes(size)).using(using), using)
            if lost := set(_holes(size)).difference(composed[3]):
                raise RuntimeError(f"This Django passes ids in another way: {len(lost)} would be lost.")
            self._composed[key] = composed
        return self._composed[key]


class _Composed(Query):
    """A query that does not compose: it has a compiler that was filled in."""

    filled: SQLCompiler

    def get_compiler(self, *_: Any, **__: Any) -> SQLCompiler:
        return self.filled


def _holes(size: int) -> list[int]:
    return [HOLE - number for number in range(size)]


def _compose(queryset: QuerySet[Any, R], using: str) -> tuple[QuerySet[Any, R], SQLCompiler, str, tuple[Any, ...]]:
    compiler = queryset.query.get_compiler(using=using)
    sql, params = compiler.as_sql()
    compiler.connection = None  # the thread's own, which ends with it
    queryset._query = queryset.query.chain(klass=_Composed)  # type: ignore[attr-defined]
    return queryset, compiler, sql, tuple(params)


def _filled(compiler: SQLCompiler, using: str, sql: str, params: tuple[Any, ...]) -> SQLCompiler:
    """The compiler as it is after composing, on this thread's connection, with these parameters."""
    filled = copy.copy(compiler)
    filled.connection = connections[using]
    filled.as_sql = lambda *_, **__: (sql, params)  # type: ignore[method-assign]
    return filled
