"""``tests/attempts.py`` cites only tests that exist."""

from __future__ import annotations

import pytest

from tests.architecture.test_requirements import exists
from tests.attempts import ATTEMPTS, Attempt


@pytest.mark.parametrize(
    "attempt", [pytest.param(each, id=each.attempt) for rows in ATTEMPTS.values() for each in rows]
)
def test_each_test_named_by_an_attempt_exists(attempt: Attempt) -> None:
    assert exists(attempt.test)
