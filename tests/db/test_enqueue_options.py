"""The table of options and the functions that enqueue name the same options."""

from tests.db.masters import Master
from txqueue.cli.enqueue import enqueue
from txqueue.model.enqueue_options import OPTIONS, EnqueueOptions
from txqueue.tracing.carried import TRACED_AT

OF_SCHEDULES = ["schedule", "due", "zone"]
OF_CLASSES = {"redacted", "keys"}


def test_the_arguments_of_enqueue_are_the_options_with_a_type(node: Master) -> None:
    """Each option with a type is an argument of that type, and there is no other."""
    arguments = node.value(
        "select pg_get_function_identity_arguments(oid) from pg_proc"
        " where pronamespace = 'txqueue'::regnamespace and proname = 'enqueue'"
    )
    named = {
        name.strip('"'): kind.replace("timestamp with time zone", "timestamptz")
        for name, _, kind in (each.partition(" ") for each in arguments.split(", "))
    }
    typed = {name: option.sql for name, option in OPTIONS.items() if option.sql is not None}
    assert named == {**typed, "work_type": "text", "payload": "jsonb", "options": "jsonb"}


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
