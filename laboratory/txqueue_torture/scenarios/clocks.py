"""Hosts whose wall clocks are wrong, or are set during the run."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

from txqueue_torture.demands import ended_jobs, no_duplicates
from txqueue_torture.environment import Testbed
from txqueue_torture.needs import FAKETIME
from txqueue_torture.scenario import scenario
from txqueue_torture.scenarios.calm import MIXED

__all__ = ["clocks_stepped", "clocks_wrong"]

STEPS = ("+1h", "-1h", "+0")
LOAD = (*MIXED, "expiring:5")


@frozen
class _WallClock:
    """A fake wall clock for processes, by libfaketime."""

    file: Path

    def set(self, offset: str) -> None:
        """Set the clock to an offset from the host's, such as ``-1h``."""
        new_file = self.file.with_suffix(".new")
        new_file.write_text(offset)
        new_file.rename(self.file)

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment in which a process has this wall clock."""
        library = next(Path("/").glob(FAKETIME.lstrip("/")))
        return {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(self.file),
            # Otherwise libfaketime reads the file only now and then.
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }


@scenario(
    "clocks_wrong", "hosts' clocks an hour slow, an hour fast, and right", needs=("faketime",)
)
def clocks_wrong(testbed: Testbed) -> None:
    """Run hosts with wrong clocks: only the database's decides what is due, expired or dead."""
    slow, fast = _clock(testbed, "slow", "-1h"), _clock(testbed, "fast", "+1h")
    nodes = [
        testbed.start_node("n1", env=slow.environment, listen=True),
        testbed.start_node("n2", env=fast.environment, listen=True),
    ]
    for node in nodes:
        node.wait_up()
    with testbed.fault("clocks wrong") as fault:
        testbed.start_client(rate=15, kinds=LOAD, env=fast.environment)
        testbed.start_client(rate=15, kinds=LOAD, env=slow.environment, node=nodes[0])
        testbed.flow(10)
        testbed.rest(5 * testbed.scale)
        times = {node.log[:19] for node in nodes}
        fault.evidence = f"logs begin at {', '.join(sorted(times))}"
    _expect_apart(testbed, [node.log for node in nodes])
    testbed.drain()
    no_duplicates(testbed)


@scenario("clocks_stepped", "hosts' clocks are set by hours while they work", needs=("faketime",))
def clocks_stepped(testbed: Testbed) -> None:
    """Set clocks forward and back: timers work, no node is presumed dead, no job runs early."""
    clock = _clock(testbed, "stepped", "+0")
    nodes = [testbed.start_node(name, env=clock.environment, listen=True) for name in ("n1", "n2")]
    for node in nodes:
        node.wait_up()
    testbed.start_client(rate=15, kinds=LOAD)
    testbed.start_client(rate=15, kinds=LOAD, node=nodes[0])
    testbed.flow(10)
    incarnations = _incarnations(testbed)
    for offset in STEPS * int(testbed.scale):
        before = ended_jobs(testbed)
        with testbed.fault("clock stepped") as fault:
            clock.set(offset)
            # Longer than a lease, so that a node without heartbeats would be declared dead.
            testbed.rest(1.2 * testbed.lease)
            done = ended_jobs(testbed) - before
            fault.evidence = f"set to {offset}, {done} jobs done since"
        testbed.expect(done > testbed.lease * 5, f"{done} jobs done after the step to {offset}")
    testbed.expect(_incarnations(testbed) == incarnations, "no node was presumed dead")
    testbed.drain()
    no_duplicates(testbed)


def _clock(testbed: Testbed, name: str, offset: str) -> _WallClock:
    clock = _WallClock(testbed.folder / f"{name}.clock")
    clock.set(offset)
    return clock


def _incarnations(testbed: Testbed) -> list[tuple[int, str]]:
    question = f"select incarnation, state::text from {testbed.schema}.node_info order by 1"
    return [(number, state) for number, state in testbed.database.rows(question)]


def _expect_apart(testbed: Testbed, logs: list[str]) -> None:
    """Expect that the nodes really had different wall clocks."""
    hours = {log[:13] for log in logs}
    testbed.expect(len(hours) == len(logs), f"the nodes' logs begin in different hours: {hours}")
