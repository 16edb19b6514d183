"""How the comparison with other queues counts."""

import subprocess
import sys
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from benchmarks.rivals.__main__ import alike, better, planned, summary, turns
from benchmarks.rivals.brief import Pace
from benchmarks.rivals.commits import ends, rate_told, started_after
from benchmarks.rivals.rival import Rival, Stage, drain_speed, statements_in
from benchmarks.rivals.work import CLIENT, starts_in

LOG = """\
txqueue LOG:  statement: select 1
oban LOG:  execute <unnamed>: select 2
\ta line of that statement
oban LOG:  statement: begin
oban DETAIL:  Parameters: $1 = 'oban LOG:  statement: '
 LOG:  checkpoint complete
"""


def test_times_and_memory_are_better_when_they_are_smaller() -> None:
    """Rates are better when they are larger; what is not above 0 has no ratio."""
    assert better("drain", 100, 50) == better("steady_p50", 1, 2) == better("pss", 20, 40) == 2
    assert better("lone_p50", -0.1, 2) == 0


def test_a_rival_is_compared_round_by_round() -> None:
    """A slow round of the machine slows both sides; what txqueue lacks is not compared."""
    figures = {
        "txqueue": {"bulk": [10.0, 2.0, 9.0]},
        "other": {"bulk": [5.0, 1.0, 9.0], "own": [1.0]},
    }
    told = summary(figures)
    assert told["medians"] == {"txqueue": {"bulk": 9.0}, "other": {"bulk": 5.0, "own": 1.0}}
    assert told["times_as_good"] == {"other": {"bulk": 2.0}}


def test_sides_take_turns() -> None:
    """Each row is measured of all systems that have it before the next row."""
    systems: dict[str, dict[str, Stage]] = {
        "one": {"bulk": lambda _: {}, "idle": lambda _: {}},
        "two": {"idle": lambda _: {}, "bulk": lambda _: {}},
        "three": {"idle": lambda _: {}},
    }
    assert [each[:2] for each in turns(systems, ["idle", "bulk"])] == [
        ("one", "idle"),
        ("two", "idle"),
        ("three", "idle"),
        ("one", "bulk"),
        ("two", "bulk"),
    ]


def test_rows_with_a_condition_of_the_server_are_measured_apart() -> None:
    """The others share their rounds."""
    rows = ["lone", "standby", "enqueue_8", "rest"]
    assert alike(rows) == [["lone", "enqueue_8"], ["standby"], ["rest"]]


def test_the_cloud_has_rows_and_a_disk_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    """Both can be chosen; an unknown row is refused with the known ones."""
    plan = planned(["--cloud"])
    assert (plan.disk, plan.names, "enqueue_32" in plan.rows) == (
        2.0,
        ["graphile-worker", "pgmq"],
        True,
    )
    plan = planned(["--cloud", "--disk", "0", "--rows", "idle,bulk", "100", "2", "oban"])
    assert (plan.disk, plan.rows, plan.names) == (0.0, ["idle", "bulk"], ["oban"])
    assert (plan.jobs, plan.rounds) == (100, 2)
    with pytest.raises(SystemExit):
        planned(["--rows", "idel"])
    assert "unknown: idel; there are bulk, idle" in capsys.readouterr().err


def test_starts_are_held_against_the_ends_of_their_transactions() -> None:
    """The n-th line of a client in pgbench's log is its n-th job; other jobs do not count."""
    log = ["3 0 900 0 17 500", "0 0 900 0 17 600", "3 1 900 0 17 1500"]
    ended = dict(ends(log))
    assert ended == {(3, 1): 17_000_500, (0, 1): 17_000_600, (3, 2): 17_001_500}
    noted = array("q", [3 * CLIENT + 1, 17_001_500, 3 * CLIENT + 2, 17_004_500, 9, 17_000_000])
    latency = started_after(ended, starts_in(noted))
    assert latency["p50"] == 2


def test_batches_keep_their_pace() -> None:
    """Each is a range of numbers from 1; the last one ends with the last job."""
    batches = list(Pace(rate=10_000, seconds=1, batch=5_000).batches())
    assert batches == [range(1, 5_001), range(5_001, 10_001)]


def test_the_speed_of_workers_counts_from_the_first_job_to_the_last() -> None:
    """A worker that has run nothing has no times."""
    told: list[dict[str, Any]] = [
        {"count": 30, "first": 1.0, "last": 3.0},
        {"count": 10, "first": 2.0, "last": 5.0},
        {"count": 0, "first": None, "last": None},
    ]
    assert drain_speed(told) == 10


def test_the_rate_is_read_from_pgbench() -> None:
    """Its last line."""
    output = "latency average = 2.300 ms\ntps = 434.912345 (without initial connection time)\n"
    assert rate_told(output) == 434.912345


def test_statements_of_a_database_are_counted() -> None:
    """By simple and by extended protocol; their other lines and other databases do not count."""
    assert statements_in(LOG, "oban") == 2
    assert statements_in(LOG, "txqueue") == 1


def test_the_last_wave_is_compared_with_the_first_that_counts() -> None:
    """One wave warms up before; all run while the snapshot is held."""
    speeds = iter([10.0, 400.0, *[300.0] * 8, 100.0])
    is_held: list[bool] = []

    class Waves(Rival):
        def wave(self, jobs: int) -> float:
            assert (jobs, is_held) == (50, [True])
            return next(speeds)

    @contextmanager
    def snapshot() -> Iterator[None]:
        is_held.append(True)
        yield
        is_held.clear()

    no_broker: Any = None
    assert Waves((), {}, no_broker).held(snapshot, 500) == {"held": 0.25}
    assert next(speeds, None) is None


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends waits later than asked")
def test_the_network_has_exact_timers() -> None:
    """A round trip of 1 ms would take an eighth longer."""
    code = (
        "from benchmarks.rivals.network import use_exact_timers; use_exact_timers();"
        " print(open('/proc/self/timerslack_ns').read())"
    )
    told = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE)
    assert int(told.stdout) == 1
