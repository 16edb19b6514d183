"""The files of the stored functions, as they are sent to the database."""

import re

from txqueue.store.schema_files import functions


def test_no_mark_is_left() -> None:
    """Whatever stands for a name or a number was put in."""
    for name, sql in functions("elsewhere"):
        assert re.search(r"@\w+@", sql) is None, name


def test_a_function_for_each_lane() -> None:
    """One whose file names a lane is made for all of them, so that each has plans of its own."""
    sql = dict(functions("elsewhere"))["complete_in"]
    made = re.findall(r"create or replace function elsewhere\.complete_in_(\d)\(", sql)
    assert made == list("01234567")


def test_a_statement_for_each_lane() -> None:
    """Who calls them has a statement for each, with the number in all its places."""
    sql = dict(functions("elsewhere"))["complete"]
    assert re.findall(r"when (\d) then [^;]*complete_in_(\d)\(", sql) == [
        (n, n) for n in "01234567"
    ]
