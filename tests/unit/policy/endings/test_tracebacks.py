"""Exceptions as text: what Python itself would report of them, formatted once for each place."""

import gc
import linecache
import traceback
import weakref
from collections.abc import Callable

import pytest

from txqueue.policy.endings import tracebacks
from txqueue.policy.endings.tracebacks import MOST_PLACES, exception_text


def plain() -> None:
    """Fail."""
    raise ValueError("row 1\nis bad")


def caused() -> None:
    """Fail because something else did."""
    try:
        plain()
    except ValueError as error:
        raise KeyError("x") from error


def during() -> None:
    """Fail while another failure is handled."""
    try:
        plain()
    except ValueError:
        raise KeyError("x")  # noqa: B904 - what is tested


def silenced() -> None:
    """Fail in place of another failure."""
    try:
        plain()
    except ValueError:
        raise KeyError("x") from None


def grouped() -> None:
    """Fail in several ways."""
    raise ExceptionGroup("both", [ValueError("a"), KeyError("b")])


def noted() -> None:
    """Fail with a note."""
    error = ValueError("x")
    error.add_note("in row 2")
    raise error


def misspelt() -> None:
    """Fail as Python itself has something to propose."""
    "".stripp  # type: ignore[attr-defined]  # noqa: B018


def deep(left: int = 50) -> None:
    """Fail deep in a recursion."""
    if not left:
        raise ValueError
    deep(left - 1)


def does_not_compile() -> None:
    """Fail with an error that shows a line of its own."""
    compile("a b", "x.py", "exec")


def misses() -> None:
    """Fail to import a name of which Python proposes another one."""
    from os import pathh  # type: ignore[attr-defined]  # noqa: F401 - what is tested


def is_silent() -> None:
    """Fail with a class of its own, and no message."""

    class Silent(Exception):
        """Says nothing."""

    raise Silent


FAILURES = [plain, caused, during, silenced, grouped, noted, misspelt, misses, is_silent, deep]
FAILURES += [does_not_compile]


def raised(function: Callable[[], object]) -> BaseException:
    """What a function raises."""
    try:
        function()
    except Exception as error:
        return error
    raise AssertionError


@pytest.mark.parametrize("function", FAILURES)
def test_the_text_is_python_s_own(function: Callable[[], object]) -> None:
    """The first time and each time after, whether it is remembered or not."""
    for _ in range(2):
        error = raised(function)
        text = exception_text(error)[1]
        assert text == "".join(traceback.format_exception(error))


def test_an_exception_that_was_not_raised_has_no_traceback() -> None:
    """Such as one that a Deferred was failed with."""
    assert exception_text(ValueError("x")) == ("ValueError: x\n",) * 2


def test_a_place_is_formatted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the messages say; another line of the same function is another place."""
    for number in range(3):
        error = raised(lambda number=number: int(f"x{number}"))  # type: ignore[misc]
        assert f"x{number}" in exception_text(error)[1]
    seen: list[object] = []

    def format_tb(frames: object) -> list[str]:
        seen.append(frames)
        return ["frames\n"]

    monkeypatch.setattr("txqueue.policy.endings.tracebacks.traceback.format_tb", format_tb)
    for number in range(5):
        error = raised(lambda number=number: float(f"y{number}"))  # type: ignore[misc]
        assert f"y{number}" in exception_text(error)[1]
    # A lambda is another function each time, with the same code.
    assert len(seen) == 1


def test_no_variable_of_a_handler_is_kept() -> None:
    """A handler's variables may be large, and secret."""

    class Large:
        pass

    kept: list[weakref.ref[Large]] = []

    def fail() -> None:
        large = Large()
        kept.append(weakref.ref(large))
        raise ValueError("x")

    def text() -> None:
        error = raised(fail)
        exception_text(error)[1]

    text()
    gc.collect()
    assert [each() for each in kept] == [None]


def test_few_places_are_remembered() -> None:
    """An application that compiles functions makes places without end."""
    for number in range(2 * MOST_PLACES):
        scope: dict[str, Callable[[], object]] = {}
        exec(f"def fail(): raise ValueError({number})", scope)
        error = raised(scope["fail"])
        exception_text(error)[1]
    assert len(tracebacks._texts) <= MOST_PLACES
    linecache.clearcache()
