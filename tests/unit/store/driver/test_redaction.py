"""No part of a DSN's secrets gets into a message, wherever libpq reads it to be."""

from urllib.parse import quote

import pytest

from txqueue.errors import TxqueueError
from txqueue.store.driver.blocking_connection import connect
from txqueue.store.driver.hosts import redacted

# Nothing listens there, and no name is looked up.
NOWHERE = "127.0.0.1:1"
URIS = (
    "postgresql://me:{}@{}/shop",
    "postgres://me:{}@{}/shop?sslmode=disable",
    "postgresql://:{}@{}/shop",
    "postgresql://me:{}@{}",
)
STRINGS = (
    "host=127.0.0.1 port=1 user=me password={}",
    "host=127.0.0.1 port=1 user=me password = '{}'",
    "password={} host=127.0.0.1 port=1",
)
ASKED = ("postgresql://{}/shop?password={}", "postgresql://{}/shop?user=me&sslpassword={}")
# Parts that no message has by itself.
SECRETS = (
    "hunter2",
    "zq/xk7",
    "zq@xk7",
    "zq:xk7/zz9",
    "zq@xk7/zz9?y8y",
    "zq#xk7",
    "zq xk7",
    "zqé7",
)
SHOWN = ("hunter2", "zq", "xk7", "zz9", "y8y", "zqé7", "%2F", "%40")


def message_of(dsn: str) -> str:
    """The error of an attempt to connect."""
    with pytest.raises(TxqueueError) as caught:
        connect(dsn, "test")
    return f"{caught.value} {caught.value.args!r}"


DSNS = [
    *(uri.format(secret, NOWHERE) for uri in URIS for secret in SECRETS),
    *(uri.format(quote(secret, safe=""), NOWHERE) for uri in URIS for secret in SECRETS),
    *(text.format(secret) for text in STRINGS for secret in SECRETS),
    *(uri.format(NOWHERE, quote(secret)) for uri in ASKED for secret in SECRETS),
    # The host was forgotten, or is within the quotes of another.
    *(f"postgresql://me:{secret}" for secret in SECRETS if "@" not in secret),
    *(f"postgresql://me:{secret}/shop" for secret in SECRETS if "@" not in secret),
    *(f"host='127.0.0.1 password={secret}' port=1" for secret in SECRETS if " " not in secret),
]


@pytest.mark.parametrize("dsn", DSNS)
def test_no_error_of_an_attempt_shows_the_password(dsn: str) -> None:
    """Quoted, encoded or raw, and whatever it is taken for."""
    said = message_of(dsn)
    assert not [part for part in SHOWN if part in said], said


def test_the_rest_of_the_message_stays() -> None:
    """The host, the port and the reason are what an operator needs."""
    said = message_of(f"postgresql://me:zq@{NOWHERE}/shop")
    assert '"127.0.0.1", port 1 failed: Connection refused' in said


def test_a_name_that_is_also_the_password_stays() -> None:
    """It is no secret, as the DSN has it elsewhere too."""
    said = 'FATAL: role "postgres" does not exist'
    assert redacted(said, "postgresql://postgres:postgres@db/shop") == said


def test_the_beginning_of_a_long_secret_is_redacted() -> None:
    """A server cuts the names of databases off."""
    said = f'database "{"x" * 63}" does not exist'
    assert (
        redacted(said, f"postgresql://me:zq/{'x' * 80}@db/shop") == 'database "..." does not exist'
    )
