"""The contract as pytest tests: one class to subclass, one test for each check."""

from __future__ import annotations

import asyncio

import pytest

from agentstop.testing.contract.checks import CHECKS, Check, put_to
from agentstop.testing.contract.trial import NotTried, Subject


class ProviderContract:
    """Subclass it and override `subject`. What the subject does not offer is skipped, with the reason."""

    @pytest.fixture
    def subject(self) -> Subject:
        """The provider to check, and the ledger that knows what it did."""
        raise NotImplementedError("override `subject` with a fixture that returns a Subject")

    @pytest.mark.parametrize("check", CHECKS, ids=[check.__name__ for check in CHECKS])
    def test_it_keeps_the_contract(self, subject: Subject, check: Check) -> None:
        try:
            asyncio.run(put_to(check, subject))
        except NotTried as why:
            pytest.skip(str(why))
