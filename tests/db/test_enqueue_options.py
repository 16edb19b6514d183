"""The table of options and the functions that enqueue name the same options."""

import json

import psycopg2
import pytest

from tests.db.masters import Master
from txqueue.cli.enqueue import enqueue
from txqueue.model.enqueue_options import OPTIONS, EnqueueOptions, is_traceparent
from txqueue.tracing.choice import TRACED_AT

OF_SCHEDULES = ["schedule", "due", "zone"]
OF_CLASSES = {"redacted", "keys"}


def test_the_arguments_of_enqueue_are_the_options_with_a_type(node: Master) -> None:
    """Each option with a type is an argument of that type, and there is no other."""
    arguments = node.value(
        "select pg_get_function_identity_arguments(oid) from pg_proc"
        " where pronamespace = 'txqueue'::regnamespace and proname = 'enqueue' and pronargs > 2"
    )
    named = {
        name.strip('"'): kind.replace("timestamp with time zone", "timestamptz")
        for name, _, kind in (each.partition(" ") for each in arguments.split(", "))
    }
    typed = {name: option.sql for name, option in OPTIONS.items() if option.sql is not None}
    assert named == {
        **typed,
        "work_type": "character varying",
        "payload": "jsonb",
        "options": "jsonb",
    }


def test_the_database_knows_the_other_options(node: Master) -> None:
    """They are the members of `options`, beside those that txqueue itself adds."""
    known = node.value("select txqueue.known_options()")
    others = {name for name, option in OPTIONS.items() if option.sql is None}
    assert set(known[:-3]) == others | OF_CLASSES | {TRACED_AT}
    # Hints offer all but the last three.
    assert known[-3:] == OF_SCHEDULES


def test_each_option_says_what_it_does() -> None:
    """The docstring, which help() shows, has a line for each."""
    lines = (EnqueueOptions.__doc__ or "").splitlines()[4:]
    assert [line.partition(":")[0] for line in lines] == list(OPTIONS)
    assert all(len(line) > 20 for line in lines)


def test_shells_can_give_each_option() -> None:
    """`txqueue enqueue` has an option of each name, with a line of help."""
    help_by_name = {
        parameter.name: getattr(parameter, "help", None) for parameter in enqueue.params
    }
    assert all(help_by_name[name] for name in OPTIONS)


PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize(
    "value",
    [
        PARENT,
        "nonsense",
        "",
        7,
        None,
        {"a": PARENT},
        PARENT.upper(),
        PARENT.replace("3", "-"),
        PARENT.replace("-", "0"),
        f"{PARENT}\n",
        f" {PARENT}",
        f"{PARENT}-00",
        PARENT.replace("00-", "ff-", 1),
        PARENT.replace("0af7651916cd43dd8448eb211c80319c", "0" * 32),
        PARENT.replace("b7ad6b7169203331", "0" * 16),
    ],
)
def test_python_and_the_database_take_the_same_traces(node: Master, value: object) -> None:
    """One that a worker could not continue is refused, whatever client enqueues it."""
    options = {"traceparent": value}
    if is_traceparent(value):
        assert node.enqueue({"options": options})
        return
    with pytest.raises(psycopg2.Error, match="traceparent is not a header of W3C Trace Context"):
        node.enqueue({"options": options})
    with pytest.raises(psycopg2.Error, match="traceparent is not a header of W3C Trace Context"):
        node.value("select txqueue.enqueue('test.kind', '{}', options => %s)", json.dumps(options))


def test_a_state_of_a_trace_is_text(node: Master) -> None:
    """As it is sent as a header."""
    assert node.enqueue({"options": {"tracestate": "a=1"}})
    with pytest.raises(psycopg2.Error, match="tracestate is not text"):
        node.enqueue({"options": {"tracestate": 7}})
