"""How a node starts its workers, and when a process must not fork."""

import pytest

from txqueue.errors import ConfigurationError
from txqueue.policy.worker_start import (
    ImportTraces,
    checked_start,
    forks_workers,
    obstacle_to_fork,
)


@pytest.mark.parametrize(
    ("chosen", "workers", "platform", "expected"),
    [
        ("auto", 2, "linux", True),
        ("auto", 1, "linux", False),
        ("auto", 8, "darwin", False),
        ("fork", 1, "linux", True),
        ("spawn", 8, "linux", False),
    ],
)
def test_which_nodes_fork(chosen: str, workers: int, platform: str, expected: bool) -> None:
    """By itself only one with several workers on Linux."""
    assert forks_workers(chosen, workers, platform) is expected


@pytest.mark.parametrize(
    ("chosen", "platform", "said"),
    [
        ("thread", "linux", "--worker-start is 'thread', not a way to start workers"),
        ("fork", "darwin", "--worker-start is fork, which takes Linux"),
    ],
)
def test_a_start_that_is_not_valid(chosen: str, platform: str, said: str) -> None:
    """Unknown ones, and forking where it is not supported."""
    with pytest.raises(ConfigurationError, match=said):
        checked_start(chosen, platform, "--worker-start")


@pytest.mark.parametrize(("chosen", "platform"), [("auto", "darwin"), ("spawn", "win32")])
def test_a_valid_start(chosen: str, platform: str) -> None:
    """It is returned."""
    assert checked_start(chosen, platform, "--worker-start") == chosen


@pytest.mark.parametrize(
    ("traces", "said"),
    [
        (ImportTraces(threads=["sender"]), "started a thread (sender)"),
        (ImportTraces(foreign_threads=3), "started threads of a library, 3 of them"),
        (ImportTraces(has_reactor=True), "installed a reactor"),
        (ImportTraces(children=[4712, 4711]), "started a process (4711, 4712)"),
        (ImportTraces(opened=["socket:[1]", "/a"]), "what processes cannot share (/a, socket:[1])"),
    ],
)
def test_what_forbids_a_fork(traces: ImportTraces, said: str) -> None:
    """Threads, a reactor, child processes, and descriptors that several processes cannot use."""
    assert said in (obstacle_to_fork(traces) or "")


def test_what_leaves_nothing_behind_allows_a_fork() -> None:
    """There is no obstacle."""
    assert obstacle_to_fork(ImportTraces()) is None
