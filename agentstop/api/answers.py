"""The problems that any address may answer with, as the published schema names them."""

from __future__ import annotations

from agentstop.api.problems import ProblemOut

REFUSALS: dict[int, type[ProblemOut]] = dict.fromkeys((400, 401, 403, 404, 409, 413, 415, 422, 429), ProblemOut)
