"""The hosts of a DSN, in the order of attempts."""

import pytest

from txqueue.store.driver.hosts import attempts, database_name
from txqueue.store.driver.session_bounds import NOTICING


def tried(dsn: str, **environ: str) -> list[tuple[str | None, str | None]]:
    """The host and the port of each attempt."""
    found = attempts(dsn, environ)
    said = [each.parameters for each in found]
    return [(each.get("host"), each.get("port") or None) for each in said]


@pytest.mark.parametrize(
    ("dsn", "hosts"),
    [
        ("", [(None, None)]),
        ("postgresql://db/shop", [("db", None)]),
        ("host=db port=6432", [("db", "6432")]),
        ("postgresql://a,b/shop", [("a", None), ("b", None)]),
        ("postgresql://a:1,b:2/shop", [("a", "1"), ("b", "2")]),
        ("host=a,b port=7", [("a", "7"), ("b", "7")]),
        ("postgresql:///shop?host=/run/a,/run/b", [("/run/a", None), ("/run/b", None)]),
    ],
)
def test_each_host_is_an_attempt(dsn: str, hosts: list[tuple[str | None, str | None]]) -> None:
    """In the order of the DSN, each with its own port, or with the one for all."""
    assert tried(dsn) == hosts


def test_hosts_of_the_environment_count() -> None:
    """What the DSN does not say libpq reads from its variables, and so do we."""
    assert tried("dbname=shop", PGHOST="a,b") == [("a", None), ("b", None)]
    assert tried("host=c", PGHOST="a,b") == [("c", None)]


def test_a_wrong_list_stays_whole() -> None:
    """libpq says what is wrong with it."""
    assert len(attempts("host=a,b port=1,2,3", {})) == 1


@pytest.mark.parametrize(
    ("dsn", "environ"),
    [
        ("postgresql://a,b/shop?target_session_attrs=prefer-standby", {}),
        ("host=a,b", {"PGTARGETSESSIONATTRS": "prefer-standby"}),
    ],
    ids=["DSN", "environment"],
)
def test_a_standby_is_preferred_among_all_hosts(dsn: str, environ: dict[str, str]) -> None:
    """Each host is tried as one, then each as any, so that one without an answer hides none."""
    found = [each.parameters for each in attempts(dsn, environ)]
    assert [(each["host"], each["target_session_attrs"]) for each in found] == [
        ("a", "standby"),
        ("b", "standby"),
        ("a", "any"),
        ("b", "any"),
    ]


def test_one_host_that_is_gone_does_not_keep_us_long_from_the_next() -> None:
    """With several hosts each has less time; what the DSN says holds."""
    assert [each.patience for each in attempts("host=a", {})] == [10.0]
    assert [each.patience for each in attempts("host=a,b", {})] == [3.0, 3.0]
    assert [each.patience for each in attempts("host=a,b connect_timeout=7", {})] == [7.0, 7.0]
    assert attempts("host=a", {"PGCONNECT_TIMEOUT": "4"})[0].patience == 4.0
    assert attempts("host=a connect_timeout=0", {})[0].patience == 10.0


def test_a_silent_connection_is_noticed_unless_the_dsn_says_otherwise() -> None:
    """The kernel asks early whether the other side is still there."""
    assert NOTICING.items() <= attempts("host=a", {})[0].parameters.items()
    assert attempts("host=a keepalives_idle=99", {})[0].parameters["keepalives_idle"] == "99"


def test_an_attempt_does_not_show_its_password() -> None:
    """Not even in a traceback."""
    assert "secret" not in repr(attempts("postgresql://me:secret@db/shop", {}))


def test_a_database_name_has_no_secret_of_a_misread_dsn() -> None:
    """An unescaped slash makes the rest of a password part of the name."""
    assert database_name("postgresql://me:se/cret@db/shop") == "...@db/shop"
