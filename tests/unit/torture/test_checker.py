"""The checker: it says nothing of right histories, and names the promise that is broken."""

from random import Random
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.torture.histories import (
    EPOCH,
    Simulation,
    done,
    enqueue,
    fault,
    history,
    run,
)
from txqueue_torture.checker import INVARIANTS, check
from txqueue_torture.figures import duplicates, figures_of
from txqueue_torture.history import EndOfRun, History

DIED: dict[str, Any] = {"ended": None, "how": None}
FROZEN: dict[str, Any] = {"kind": "freeze", "frozen": True, "began": 1.5, "ended": 9.5}


def broken(found: History) -> set[str]:
    """The invariants that a history violates."""
    return {violation.invariant for violation in check(found)}


RIGHT = {
    "one job": history(),
    "nothing at all": history([], [], []),
    "unknown and there": history([enqueue(outcome="unknown", job_id=None)]),
    "unknown and not there": history([enqueue(outcome="unknown", job_id=None)], [], []),
    "attempted and there": history([enqueue(outcome="attempted", job_id=None)]),
    "refused and not there": history([enqueue(outcome="refused", job_id=None)], [], []),
    "failed and says why": history(jobs=[done(state="failed", error="ValueError")]),
    "on time": history([enqueue(not_before=EPOCH + 1.0)]),
    "early by a clock that did not answer": history(
        [enqueue(not_before=EPOCH + 5)], [run(began_at=None)]
    ),
    "before its expiry": history([enqueue(not_after=EPOCH + 1.1, expires=True)]),
    "after a mere bump": history([enqueue(not_after=EPOCH)]),
    "one after the other": history(
        [enqueue(1), enqueue(2)],
        [run(1, 1.0, group="g"), run(2, 2.0, group="g")],
        [done(1), done(2, 3.1)],
    ),
    "raised and again": history(
        runs=[run(assignment=3, how="raised"), run(began=3.0)], jobs=[done(finished=4.1)]
    ),
    "died and again": history(
        runs=[run(assignment=3, **DIED), run(began=3.0, pid=101)],
        jobs=[done(finished=4.1)],
        faults=[fault(assigned=frozenset({(1, 3)}))],
    ),
    "frozen while another took over": history(
        [enqueue(1), enqueue(2)],
        [
            run(1, 1.0, assignment=3, group="g", ended=10.0, how="returned"),
            run(1, 6.0, group="g", pid=200, node="n2", ended=7.0),
            run(2, 7.5, group="g", pid=200, node="n2", ended=8.0),
        ],
        [done(1, 7.1), done(2, 8.1)],
        [fault(**FROZEN)],
    ),
    "frozen as it began": history(
        [enqueue(1), enqueue(2)],
        [
            run(1, 6.0, assignment=10, pid=200, node="n2"),
            run(1, 9.51, assignment=5, how="token lost", ended=9.52),
            run(2, 1.0),
        ],
        [done(1, 7.1), done(2)],
        [fault(**FROZEN, assigned=frozenset({(1, 5), (2, 20)}))],
    ),
    "frozen as it began, without a record of its jobs": history(
        runs=[
            run(1, 6.0, assignment=10, pid=200, node="n2"),
            run(1, 9.51, assignment=5, ended=9.52),
        ],
        jobs=[done(1, 7.1)],
        faults=[fault(**FROZEN, assigned=None)],
    ),
    "an effect": history(
        [enqueue(kind="effect")], [run(how="committed")], [done(finished=1.9)], effects={1: 1}
    ),
    "an effect, killed before it was noted": history(
        [enqueue(kind="effect")],
        [run(**DIED)],
        [done(finished=1.4)],
        [fault(assigned=frozenset())],
        effects={1: 1},
    ),
}

WRONG = {
    "gone": ("I1", history(jobs=[])),
    "done and never run": ("I1", history(runs=[])),
    "done by a run that died": ("I1", history(runs=[run(**DIED)], faults=[fault()])),
    "failed and does not say why": ("I1", history(jobs=[done(state="failed")])),
    "another's number": ("I1", history([enqueue(), enqueue(2, job_id=1)])),
    "refused and runs": ("I2", history([enqueue(outcome="refused", job_id=None)])),
    "rolled back and is there": ("I2", history([enqueue(outcome="rolled back")])),
    "never attempted": ("I2", history([])),
    "twice there": (
        "I2",
        history(runs=[run(), run(2, intent="c1-1")], jobs=[done(), done(2, intent="c1-1")]),
    ),
    "early": ("I3", history([enqueue(not_before=EPOCH + 1.001)])),
    "expired": ("I4", history([enqueue(not_after=EPOCH + 0.4, expires=True)])),
    "two of a group": (
        "I5",
        history(
            [enqueue(1), enqueue(2)],
            [run(1, 1.0, group="g"), run(2, 1.9, group="g", pid=200)],
            [done(1), done(2, 3.0)],
        ),
    ),
    "a short one hides behind a long one": (
        "I5",
        history(
            [enqueue(1), enqueue(2), enqueue(3)],
            [
                run(1, 1.0, group="g", ended=9.0),
                run(2, 2.0, group="h"),
                run(3, 4.0, group="g", pid=200),
            ],
            [done(1, 9.1), done(2, 3.1), done(3, 5.1)],
        ),
    ),
    "of a group, frozen for less than a lease": (
        "I5",
        history(
            [enqueue(1), enqueue(2)],
            [run(1, 1.0, group="g", ended=4.0), run(2, 3.0, group="g", pid=200, node="n2")],
            [done(1, 4.1), done(2, 4.1)],
            [fault(**{**FROZEN, "ended": 3.5})],
        ),
    ),
    "of a group, beside one that lived on": (
        "I5",
        history(
            [enqueue(1), enqueue(2), enqueue(3)],
            [
                run(1, 1.0, assignment=3, group="g", **DIED),
                run(1, 2.0, group="g", pid=200, node="n2"),
                run(2, 4.0),
                run(3, 5.0, pid=200),
            ],
            [done(1, 3.1), done(2, 5.1), done(3, 6.1)],
            [fault(kind="cut", assigned=frozenset({(1, 3)}))],
        ),
    ),
    "completed under an old token": (
        "I5",
        history(
            runs=[run(1, 1.0, ended=4.0), run(1, 2.0, assignment=12, pid=200, node="n2")],
            jobs=[done(finished=4.1)],
            faults=[fault(**FROZEN)],
        ),
    ),
    "committed under an old token": (
        "I5",
        history(
            [enqueue(kind="effect")],
            [
                run(1, 1.0, assignment=3, ended=4.0, how="committed"),
                run(1, 2.0, pid=200, node="n2", how="token lost"),
            ],
            [done(finished=3.9)],
            [fault(**FROZEN)],
            effects={1: 1},
        ),
    ),
    "completed by the word of another": (
        "I5",
        history(
            runs=[
                run(1, 1.0, assignment=3, ended=9.6),
                run(1, 9.4, pid=200, node="n2", ended=11.0),
            ],
            jobs=[done(finished=9.7)],
            faults=[fault(**FROZEN)],
        ),
    ),
    "completed before it even ran where it was": (
        "I5",
        history(
            runs=[run(1, 1.0, assignment=3, ended=9.6)],
            jobs=[done(finished=9.7)],
            faults=[fault(**FROZEN)],
        ),
    ),
    "after its completion": (
        "I6",
        history(
            runs=[run(), run(began=5.0, assignment=12, pid=200)],
            faults=[fault(kind="cut", nodes=None)],
        ),
    ),
    "after a commit that was noted": (
        "I6",
        history(
            [enqueue(kind="effect")],
            [run(how="committed"), run(began=5.0, assignment=12, began_at=None, pid=200)],
            [done()],
            [fault(kind="cut", nodes=None)],
            effects={1: 1},
        ),
    ),
    "twice without a fault": (
        "I7",
        history(runs=[run(assignment=3), run(began=3.0)], jobs=[done(finished=4.1)]),
    ),
    "twice, on a node that was not hurt": (
        "I7",
        history(
            runs=[run(assignment=3, node="n2"), run(began=3.0)],
            jobs=[done(finished=4.1)],
            faults=[fault()],
        ),
    ),
    "twice, not held at the fault": (
        "I7",
        history(
            runs=[run(assignment=3), run(began=3.0)],
            jobs=[done(finished=4.1)],
            faults=[fault(assigned=frozenset({(1, 2)}))],
        ),
    ),
    "twice, begun after the fault": (
        "I7",
        history(
            runs=[run(began=2.0, assignment=3), run(began=4.0)],
            jobs=[done(finished=5.1)],
            faults=[fault()],
        ),
    ),
    "twice under one token": (
        "I8",
        history(
            runs=[run(), run(began=1.5, pid=101)],
            jobs=[done(finished=3.0)],
            faults=[fault()],
        ),
    ),
    "an old token starts": (
        "I8",
        history(
            runs=[run(1, 1.0, ended=5.0), run(1, 2.0, assignment=5, pid=200, how="raised")],
            jobs=[done(finished=5.1)],
            faults=[fault(0.5, 5.0, kind="cut", nodes=None)],
        ),
    ),
    "no effect": ("I9", history([enqueue(kind="effect")], [run(how="committed")])),
    "an effect of what is not done": (
        "I9",
        history(
            [enqueue(kind="effect")],
            [run(how="raised")],
            [done(state="failed", error="e")],
            effects={1: 1},
        ),
    ),
    "an effect of nothing": ("I9", history(effects={7: 1})),
    "left over": (
        "I10",
        history(
            runs=[], jobs=[done(state="ready")], drain=EndOfRun(healed=10.0, ended=70.0, left=1)
        ),
    ),
    "late": ("I10", history(drain=EndOfRun(healed=10.0, ended=70.1, left=0))),
    "never drained": ("I10", history(drain=None)),
    "no evidence": ("fault", history(faults=[fault(evidence="")])),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_history(name: str) -> None:
    """No violation is reported."""
    assert check(RIGHT[name]) == []


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_history(name: str) -> None:
    """Exactly the promise that is broken is named."""
    invariant, found = WRONG[name]
    assert broken(found) == {invariant}


def test_every_invariant_has_a_wrong_history() -> None:
    """None is there that was never seen to fail."""
    assert {invariant for invariant, _ in WRONG.values()} == {name for name, _ in INVARIANTS}


@given(st.integers(), st.integers(1, 25))
def test_what_a_right_queue_does(seed: int, jobs: int) -> None:
    """A queue that keeps its promises is never accused, whatever faults it meets."""
    assert check(Simulation(Random(seed)).history(jobs)) == []


def test_many_violations_are_cut_short() -> None:
    """One cause that shows in a thousand jobs does not bury the rest."""
    found = check(history([enqueue(n) for n in range(1000)], [], []))
    assert len(found) == 21
    assert found[-1].text == "and 980 more like these"


def test_figures() -> None:
    """What is counted: a retry is no duplicate, and a kill is timed to the next start."""
    found = evolve(RIGHT["died and again"])
    figures = figures_of(found)
    assert (figures["enqueued"], figures["done"], figures["duplicates"]) == (1, 1, 1)
    assert figures["restart_seconds"] == pytest.approx(1.5)
    assert duplicates(RIGHT["raised and again"]) == []
