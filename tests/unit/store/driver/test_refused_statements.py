"""Which statements of a node the database refuses."""

import psycopg2
import pytest

from txqueue.errors import DatabaseUnavailable, NotPermitted, Refused
from txqueue.store.driver.errors import (
    COUNTS_AFTER,
    FORGOTTEN_AFTER,
    RefusedStatements,
)


class Statements:
    """Refused and successful statements, at times that the test chooses."""

    def __init__(self) -> None:
        self.time = 0.0
        self.refused = RefusedStatements(lambda: self.time)

    def refuse(self, statement: str, error: Exception) -> None:
        """Run a statement that fails."""
        with pytest.raises(type(error)), self.refused.noted(statement):
            raise error

    def succeed(self, statement: str) -> None:
        """Run a statement that succeeds."""
        with self.refused.noted(statement):
            """There is nothing to do."""

    @property
    def said(self) -> str | None:
        """What the server answered to the first refused statement."""
        return None if self.refused.first is None else self.refused.first.said


def sent(sqlstate: str) -> psycopg2.Error:
    """An error that the server sent."""
    error = psycopg2.DatabaseError(sqlstate)
    error.__setstate__({"pgcode": sqlstate})
    return error


def unavailable(sqlstate: str) -> DatabaseUnavailable:
    """The error that the driver's modules raise in place of the server's."""
    error = DatabaseUnavailable("no space")
    error.__context__ = sent(sqlstate)
    return error


def test_a_refused_statement_counts_until_it_succeeds() -> None:
    """The success of another one changes nothing."""
    statements = Statements()
    assert statements.said is None
    statements.refuse("claim", NotPermitted("permission denied for function next_job"))
    statements.refuse("beat", NotPermitted("permission denied for function heartbeat"))
    statements.succeed("complete")
    assert statements.said == "permission denied for function next_job"
    assert statements.refused.refuses("claim")
    statements.succeed("claim")
    assert not statements.refused.refuses("claim")
    assert statements.said == "permission denied for function heartbeat"
    statements.succeed("beat")
    assert statements.said is None


@pytest.mark.parametrize("error", [unavailable("53100"), sent("P0001"), sent("XX001")])
def test_a_statement_that_fails_for_seconds_is_refused(error: Exception) -> None:
    """Whatever the server answers; one failure alone may concern one row, and a success ends it."""
    statements = Statements()
    statements.refuse("claim", error)
    statements.time = COUNTS_AFTER - 0.5
    statements.refuse("claim", error)
    assert not statements.refused.refuses("claim")
    statements.succeed("claim")
    statements.refuse("claim", error)
    statements.time += COUNTS_AFTER
    assert not statements.refused.refuses("claim")
    statements.refuse("claim", error)
    assert statements.refused.refuses("claim")
    assert statements.refused.first is not None
    statements.succeed("claim")
    assert statements.refused.first is None


@pytest.mark.parametrize(
    "error",
    [
        Refused("jobs have failed"),
        DatabaseUnavailable("the connection is lost"),
        *map(sent, ["08006", "25006", "40001", "40P01", "53300", "55P03", "57P01"]),
        sent("TXQ01"),
    ],
)
def test_errors_that_a_retry_ends_do_not_count(error: Exception) -> None:
    """Lost connections, deadlocks, lock timeouts; a refusal noted before remains."""
    statements = Statements()
    for _ in range(3):
        statements.refuse("claim", error)
        statements.time += COUNTS_AFTER
    assert statements.said is None
    statements.refuse("claim", NotPermitted("permission denied"))
    statements.refuse("claim", error)
    assert statements.said == "permission denied"


def test_a_statement_that_takes_too_long_again_and_again_counts() -> None:
    """A node that can never claim is not ready; one that was slow once is."""
    statements = Statements()
    statements.refuse("claim", sent("57014"))
    assert statements.said is None
    statements.time += COUNTS_AFTER
    statements.refuse("claim", sent("57014"))
    assert statements.said is not None


def test_a_statement_that_is_not_repeated_is_forgotten() -> None:
    """One that is refused again is not."""
    statements = Statements()
    statements.refuse("once", NotPermitted("of once"))
    statements.refuse("again", NotPermitted("of again"))
    statements.time = FORGOTTEN_AFTER - 1
    statements.refuse("again", NotPermitted("of again"))
    assert statements.said == "of once"
    statements.time = FORGOTTEN_AFTER + 1
    assert statements.said == "of again"
