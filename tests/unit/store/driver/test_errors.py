"""What is said of the driver's errors."""

import psycopg
import psycopg2.errors
import pytest
from twisted.internet.defer import CancelledError

from txqueue.errors import DatabaseUnavailable, InvalidWork
from txqueue.standalone import sessions
from txqueue.store.driver.errors import is_passing, translated, translation
from txqueue.store.driver.shared_errors import of_all, unavailable

CLIENTS = "connection to server failed: FATAL:  sorry, too many clients already"
RESERVED = "FATAL:  remaining connection slots are reserved for roles with the SUPERUSER attribute"


def raised(said: str, sqlstate: str | None) -> psycopg2.OperationalError:
    """An error as the driver raises it; one without a code does not come from a statement."""
    error = psycopg2.OperationalError(said)
    error.__setstate__({"pgcode": sqlstate})
    return error


@pytest.mark.parametrize(
    ("said", "sqlstate", "what", "remedy"),
    [
        ("could not connect to server", None, "does not answer", "check the DSN"),
        ("FATAL:  no such role", None, "refuses the connection", "check the DSN"),
        (CLIENTS, None, "refuses the connection", "end sessions"),
        (RESERVED, None, "refuses the connection", "end sessions"),
        ("FATAL:  no more connections allowed", None, "refuses the connection", "end sessions"),
        ("no space", "53100", "refuses the statement", "free space"),
        ("out of memory", "53200", "refuses the statement", "lower work_mem"),
        ("too many", "53300", "refuses the statement", "end sessions"),
        ("by administrator", "57P01", "has ended the connection", "connect again"),
    ],
)
def test_what_the_server_answered_is_told_apart_from_silence(
    said: str, sqlstate: str | None, what: str, remedy: str
) -> None:
    """Each with its own remedy."""
    with pytest.raises(DatabaseUnavailable) as caught, translated():
        raise raised(said, sqlstate)
    assert caught.value.what.startswith(f"the database {what}: ")
    assert caught.value.remedy.startswith(remedy)


@pytest.mark.parametrize(
    "sqlstate", ["08006", "25P03", "25P04", "57P01", "57P02", "57P03", "57P05", "25006"]
)
def test_a_session_that_is_gone_is_unavailable_to_both_drivers(sqlstate: str) -> None:
    """Whatever class the driver has for its code; that of a failed statement is raised as it is."""
    kind = psycopg2.errors.lookup(sqlstate) if sqlstate != "25P04" else psycopg2.InternalError
    error = kind("ended")
    error.__setstate__({"pgcode": sqlstate})
    assert isinstance(translation(error), DatabaseUnavailable)
    assert isinstance(sessions.translation(psycopg.errors.lookup(sqlstate)()), DatabaseUnavailable)


@pytest.mark.parametrize("sqlstate", ["25001", "25P01", "40001", "57014"])
def test_a_failed_statement_keeps_the_error_of_its_driver(sqlstate: str) -> None:
    """The session goes on."""
    error = psycopg.errors.lookup(sqlstate)()
    assert sessions.translation(error) is error


def test_a_cancelled_statement_is_no_fault_of_its_data() -> None:
    """The outcome of a job that it would have written may be written later, as it is."""
    assert is_passing(CancelledError())


def test_the_error_of_several_hosts_has_the_reason_of_each() -> None:
    """The same one once; and another kind of error as it is."""
    first, second = (unavailable(None, f"{host}: refused") for host in ("a", "b"))
    assert str(of_all([first, second, second])) == (
        f"the database does not answer: a: refused; then: b: refused; {second.remedy}"
    )
    assert of_all([first, first]) is first
    refusal = InvalidWork("wrong", "")
    assert of_all([first, refusal]) is refusal
