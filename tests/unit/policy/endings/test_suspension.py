"""What ends a run that waits is recognized, however the handler has awaited it."""

import pytest
from twisted.internet.defer import FailureGroup, FirstError
from twisted.python.failure import Failure

from txqueue.errors import Suspended
from txqueue.policy.endings.outcome import is_suspension

WAITS = Suspended("waits")


@pytest.mark.parametrize(
    ("error", "is_one"),
    [
        (WAITS, True),
        (FirstError(Failure(WAITS), 0), True),
        (FirstError(Failure(ValueError()), 0), False),
        (FailureGroup([Failure(WAITS), Failure(WAITS)]), True),
        (FailureGroup([Failure(WAITS), Failure(ValueError())]), False),
        (BaseExceptionGroup("tasks", [WAITS, BaseExceptionGroup("more", [WAITS])]), True),
        (BaseExceptionGroup("tasks", [WAITS, ValueError()]), False),
        (ValueError(), False),
        (None, False),
    ],
)
def test_a_suspension_is_recognized(error: object, is_one: bool) -> None:
    """Alone, as the first of several Deferreds, of a race, and in a group without other errors."""
    assert is_suspension(error) is is_one
