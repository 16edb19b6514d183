"""Operators' commands with arguments that mean nothing: refused, and the connection stays."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.protocols import amp

from tests.fixtures.leftovers import LoggedFailures
from tests.unit.node.test_operators import ACTS, LOOKS, Line
from txqueue.errors import AdminRefused

texts = st.text(max_size=20) | st.sampled_from([",", "1,x", "9" * 30, "'; drop table job", "-1"])
VALUES: dict[type[amp.Argument], st.SearchStrategy[Any]] = {
    amp.Integer: st.integers(),
    amp.Unicode: texts,
    amp.Float: st.floats(),
    amp.ListOf: st.lists(texts, max_size=3),
}
COMMANDS = sorted({command for command, _ in [*ACTS, *LOOKS]}, key=lambda each: each.__name__)

ARGUMENTS = sorted({name for command in COMMANDS for name, _ in command.arguments})


def arguments(command: type[amp.Command]) -> st.SearchStrategy[dict[str, Any]]:
    """All that a command takes, with whatever values."""
    kinds = {name.decode(): kind for name, kind in command.arguments}
    needed = {name: VALUES[type(kind)] for name, kind in kinds.items() if not kind.optional}
    free = {name: VALUES[type(kind)] for name, kind in kinds.items() if kind.optional}
    return st.fixed_dictionaries(needed, optional=free)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: str(command.__name__))
@given(data=st.data())
def test_nonsense_is_refused(
    command: type[amp.Command], data: Any, logged_failures: LoggedFailures
) -> None:
    """In words, not as a fault of the node; nothing of it becomes a part of a statement."""
    line = Line(AdminRefused("the database was asked", ""))
    given = data.draw(arguments(command))
    with pytest.raises(AdminRefused) as caught:
        line.ask(command, **given)
    assert "has a fault" not in str(caught.value)
    assert line.lost == []
    assert logged_failures.events == []


@given(values=st.dictionaries(st.sampled_from(ARGUMENTS), st.binary(max_size=20)))
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: str(command.__name__))
def test_bytes_that_are_no_arguments_are_refused(
    command: type[amp.Command], values: dict[bytes, bytes], logged_failures: LoggedFailures
) -> None:
    """Missing arguments likewise: the connection stays, and other calls on it get their answers."""
    line = Line(AdminRefused("the database was asked", ""))
    answers: list[Any] = []
    asked = line.client.callRemoteString(command.commandName, **_named(values))
    asked.addBoth(answers.append)
    line.pump.flush()
    [failure] = answers
    assert failure.value.errorCode == b"REFUSED"
    assert line.lost == []
    assert logged_failures.events == []


def _named(values: dict[bytes, bytes]) -> dict[str, bytes]:
    return {name.decode(): value for name, value in values.items()}
