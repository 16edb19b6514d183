"""Which statements of a node are refused for want of a right."""

import pytest

from txqueue.errors import NotPermitted, Refused
from txqueue.store.driver.missing_rights import FORGOTTEN_AFTER, MissingRights


class Rights:
    """Refused and successful statements, at times that the test chooses."""

    def __init__(self) -> None:
        self.time = 0.0
        self.missing = MissingRights(lambda: self.time)

    def refuse(self, statement: str, error: Exception) -> None:
        """Run a statement that fails."""
        with pytest.raises(type(error)), self.missing.needed_by(statement):
            raise error

    def succeed(self, statement: str) -> None:
        """Run a statement that succeeds."""
        with self.missing.needed_by(statement):
            """There is nothing to do."""


def test_a_refused_statement_counts_until_it_succeeds() -> None:
    """The success of another one changes nothing."""
    rights = Rights()
    assert rights.missing.first is None
    rights.refuse("claim", NotPermitted("permission denied for function next_job"))
    rights.refuse("beat", NotPermitted("permission denied for function heartbeat"))
    rights.succeed("complete")
    assert rights.missing.first == "permission denied for function next_job"
    assert rights.missing.refuses("claim")
    rights.succeed("claim")
    assert not rights.missing.refuses("claim")
    assert rights.missing.first == "permission denied for function heartbeat"
    rights.succeed("beat")
    assert rights.missing.first is None


def test_other_errors_are_no_matter_of_rights() -> None:
    """What the database refuses for another reason, or a lost connection."""
    rights = Rights()
    rights.refuse("claim", Refused("jobs have failed"))
    assert rights.missing.first is None
    rights.refuse("claim", NotPermitted("permission denied"))
    rights.refuse("claim", Refused("jobs have failed"))
    assert rights.missing.first == "permission denied"


def test_a_statement_that_is_not_repeated_is_forgotten() -> None:
    """One that is refused again is not."""
    rights = Rights()
    rights.refuse("once", NotPermitted("of once"))
    rights.refuse("again", NotPermitted("of again"))
    rights.time = FORGOTTEN_AFTER - 1
    rights.refuse("again", NotPermitted("of again"))
    assert rights.missing.first == "of once"
    rights.time = FORGOTTEN_AFTER + 1
    assert rights.missing.first == "of again"
