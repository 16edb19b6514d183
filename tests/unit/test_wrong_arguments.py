"""Arguments of a wrong type are refused with what they are to be, and nothing is opened."""

from __future__ import annotations

from typing import Any

import pytest

from tests.db.letters import Note
from txqueue import WorkQueue
from txqueue.adapters import statement
from txqueue.adapters import statements as several
from txqueue.admin import Admin
from txqueue.errors import ConfigurationError

WRONG: list[Any] = [5, b"txqueue", ["txqueue"], {"a": 1}, object()]


@pytest.mark.parametrize("wrong", [None, *WRONG], ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("name", ["schema", "paramstyle"])
def test_a_statement_of_a_wrong_schema_or_style(name: str, wrong: Any) -> None:
    """Also if it cannot be hashed."""
    arguments: dict[str, Any] = {"paramstyle": "format", name: wrong}
    said = "schema name .* is not a plain identifier" if name == "schema" else "no paramstyle"
    with pytest.raises(ConfigurationError, match=said):
        statement(Note(), **arguments)
    with pytest.raises(ConfigurationError, match=said):
        list(several([Note()], **arguments))


@pytest.mark.parametrize("wrong", WRONG[1:], ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("name", ["dsn", "schema", "node", "connection_wait", "connections"])
async def test_a_queue_with_an_argument_of_a_wrong_type(name: str, wrong: Any) -> None:
    """A number may be text, as in a configuration file."""
    arguments: dict[str, Any] = {"dsn": "host=/nonexistent", name: wrong}
    with pytest.raises(ConfigurationError):
        await WorkQueue.connect(**arguments)


@pytest.mark.parametrize("wrong", [True, 1.5, 0])
async def test_a_queue_with_a_wrong_number_of_connections(wrong: Any) -> None:
    """At least one, and a whole number."""
    with pytest.raises(ConfigurationError, match="connections is "):
        await WorkQueue.connect("host=/nonexistent", connections=wrong)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda value: type(value).__name__)
async def test_an_endpoint_of_a_wrong_type(wrong: Any) -> None:
    """With how to write one."""
    with pytest.raises(ConfigurationError, match="is not an endpoint; write unix:PATH or tcp"):
        await Admin.connect(wrong)
