"""What is wrong with a DSN, and which setting gave it: without any part that may be secret."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg2 import ProgrammingError
from psycopg2.extensions import parse_dsn

from txqueue.errors import ConfigurationError, DatabaseUnavailable
from txqueue.standalone.sessions import check_dsn, parameters_of
from txqueue.store.driver.hosts import attempts
from txqueue.store.driver.shared_errors import naming_source, unavailable
from txqueue.system.settings import ConfiguredDsn


@pytest.mark.parametrize(
    ("dsn", "reason"),
    [
        ("orders", 'a part of it has no "="'),
        ("host=a password=two words", "values with a space need quotes"),
        ("hots=a dbname=b", "an option that libpq does not know, did you mean host?"),
        ("postgresql://a/b?sslmod=require", "does not know, did you mean sslmode?"),
        ("postgresql://a/b?sslmode", 'missing key/value separator "=" in URI query parameter'),
        ("mysql://a:b@c/d", "it begins with mysql: instead of postgresql:"),
        ("postgresql+psycopg://a/b", "it begins with postgresql+psycopg: instead of postgresql:"),
        ("postgresql://a:50%@b/c", "write % as %25"),
        ("postgresql://[::1/b", 'looking for matching "]" in IPv6 host address'),
        ("password='abc", "unterminated quoted string"),
        ("host=a \0 dbname=b", "it has a NUL character"),
    ],
)
def test_the_reason_is_libpq_s(dsn: str, reason: str) -> None:
    """As far as it has no part of the DSN."""
    with pytest.raises(ConfigurationError, match=r"^the DSN is not valid: ") as caught:
        attempts(dsn)
    assert reason in caught.value.what


def test_a_dsn_for_psycopg_has_no_nul() -> None:
    """As for psycopg2; the error names the argument."""
    with pytest.raises(ConfigurationError, match=r"^listen_dsn is not valid: it has a NUL") as it:
        check_dsn("host=a \0 dbname=b", "listen_dsn")
    assert "postgresql://" in it.value.remedy
    with pytest.raises(ConfigurationError, match="it has a NUL"):
        parameters_of("host=a \0 dbname=b", "client")


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_no_part_of_a_password_is_shown(word: str) -> None:
    """Whatever signs it has, and whatever libpq takes it for."""
    secret = f"hush{word}hush"
    for dsn in (f"host=a password={secret}", f"postgresql://b:{secret}@a/c", secret):
        try:
            parse_dsn(dsn)
        except ProgrammingError:
            with pytest.raises(ConfigurationError) as caught:
                attempts(dsn)
            assert "hush" not in str(caught.value)


def test_the_remedy_names_the_setting() -> None:
    """The file, for instance, of which a user may not think."""
    with pytest.raises(ConfigurationError) as caught:
        attempts(ConfiguredDsn("orders", "dsn in txqueue.toml"))
    assert caught.value.remedy.startswith("correct dsn in txqueue.toml: write postgresql://")


@pytest.mark.parametrize(
    ("dsn", "environ", "remedy"),
    [
        (ConfiguredDsn("host=a", "TXQUEUE_DSN"), {}, "check the DSN (TXQUEUE_DSN) and"),
        (ConfiguredDsn("", ""), {"PGHOST": "a"}, "no DSN is given: check PGHOST and"),
        (ConfiguredDsn("", ""), {}, "no DSN is given, so libpq tries this host: name the"),
        ("host=a", {}, "check the DSN (--dsn, TXQUEUE_DSN) and that the server runs"),
    ],
)
def test_an_unreachable_server_names_its_setting(
    dsn: str, environ: dict[str, str], remedy: str
) -> None:
    """Or that there is none; a DSN of a program has none."""
    with pytest.raises(DatabaseUnavailable) as caught, naming_source(dsn, environ):
        raise unavailable(None, "connection refused")
    assert caught.value.remedy.startswith(remedy)
    assert remedy in str(caught.value)
