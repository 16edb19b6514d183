"""Hosts whose wall clocks are wrong, or are set during the run."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

from txqueue.torture.demands import ended_jobs, no_duplicates
from txqueue.torture.environment import Ground
from txqueue.torture.needs import FAKETIME
from txqueue.torture.scenario import scenario
from txqueue.torture.scenarios.calm import MIXED

__all__ = ["clocks_stepped", "clocks_wrong"]

STEPS = ("+1h", "-1h", "+0")
LOAD = (*MIXED, "expiring:5")


@frozen
class _WallClock:
    """A fake wall clock for processes, by libfaketime."""

    file: Path

    def set(self, offset: str) -> None:
        """Set the clock to an offset from the host's, such as ``-1h``."""
        made = self.file.with_suffix(".new")
        made.write_text(offset)
        made.rename(self.file)

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment that shows it to a process; the monotonic clock is unchanged."""
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
def clocks_wrong(ground: Ground) -> None:
    """Start with wrong clocks; only the database's clock decides what is due, expired or dead."""
    slow, fast = _clock(ground, "slow", "-1h"), _clock(ground, "fast", "+1h")
    nodes = [
        ground.start_node("n1", env=slow.environment, listen=True),
        ground.start_node("n2", env=fast.environment, listen=True),
    ]
    for node in nodes:
        node.wait_up()
    with ground.fault("clocks wrong") as fault:
        ground.start_client(rate=15, kinds=LOAD, env=fast.environment)
        ground.start_client(rate=15, kinds=LOAD, env=slow.environment, node=nodes[0])
        ground.flow(10)
        ground.rest(5 * ground.scale)
        shown = {node.log[:19] for node in nodes}
        fault.evidence = f"logs begin at {', '.join(sorted(shown))}"
    _expect_apart(ground, [node.log for node in nodes])
    ground.drain()
    no_duplicates(ground)


@scenario("clocks_stepped", "hosts' clocks are set by hours while they work", needs=("faketime",))
def clocks_stepped(ground: Ground) -> None:
    """Step forth and back; timers work, no node is presumed dead, nothing runs early."""
    clock = _clock(ground, "stepped", "+0")
    nodes = [ground.start_node(name, env=clock.environment, listen=True) for name in ("n1", "n2")]
    for node in nodes:
        node.wait_up()
    ground.start_client(rate=15, kinds=LOAD)
    ground.start_client(rate=15, kinds=LOAD, node=nodes[0])
    ground.flow(10)
    incarnations = _incarnations(ground)
    for offset in STEPS * int(ground.scale):
        before = ended_jobs(ground)
        with ground.fault("clock stepped") as fault:
            clock.set(offset)
            # Longer than a lease, so that a node without heartbeats would be declared dead.
            ground.rest(1.2 * ground.lease)
            done = ended_jobs(ground) - before
            fault.evidence = f"set to {offset}, {done} jobs done since"
        ground.expect(done > ground.lease * 5, f"{done} jobs done after the step to {offset}")
    ground.expect(_incarnations(ground) == incarnations, "no node was presumed dead")
    ground.drain()
    no_duplicates(ground)


def _clock(ground: Ground, name: str, offset: str) -> _WallClock:
    clock = _WallClock(ground.folder / f"{name}.clock")
    clock.set(offset)
    return clock


def _incarnations(ground: Ground) -> list[tuple[int, str]]:
    question = f"select incarnation, state::text from {ground.schema}.node_info order by 1"
    return [(number, state) for number, state in ground.database.rows(question)]


def _expect_apart(ground: Ground, logs: list[str]) -> None:
    """Expect that the nodes really had different wall clocks."""
    hours = {log[:13] for log in logs}
    ground.expect(len(hours) == len(logs), f"the nodes' logs begin in different hours: {hours}")
