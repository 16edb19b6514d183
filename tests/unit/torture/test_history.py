"""How what several processes wrote down becomes one history, whatever they died in the midst of."""

import json
from pathlib import Path
from typing import Any

from txqueue_torture.history import lines_of, read_history
from txqueue_torture.recorder import Recorder

NOWHERE = "host=/nonexistent connect_timeout=1"
RUN: dict[str, Any] = {
    "intent": "c1-0",
    "job_id": 7,
    "attempt": 1,
    "incarnation": 1,
    "node": "n1",
    "group": None,
}


def note(what: str, mono: float, **told: Any) -> dict[str, Any]:
    """A line."""
    return {"what": what, "mono": mono, **told}


def test_a_recorder_writes_whole_lines(tmp_path: Path) -> None:
    """One file a process, readable at once; without a database there is no time of it."""
    recorder = Recorder(tmp_path, "client", NOWHERE)
    recorder.write("enqueue", intent="c1-0", outcome="attempted")
    assert recorder.at() is None
    recorder.write("enqueue", intent="c1-0", outcome="acknowledged", job_id=7)
    recorder.close()
    assert [line["outcome"] for line in lines_of(tmp_path)] == ["attempted", "acknowledged"]


def test_half_a_line_is_none(tmp_path: Path) -> None:
    """A process that is killed as it writes spoils nothing else."""
    whole = json.dumps(note("up", 1.0))
    (tmp_path / "handler-1.jsonl").write_text(f'{whole}\n{{"what": "sta')
    assert [line["what"] for line in lines_of(tmp_path)] == ["up"]


def test_the_outcome_of_an_enqueue_is_its_last_word() -> None:
    """The attempt has the request, the outcome its result."""
    tried = note("enqueue", 1.0, intent="a", kind="noop", outcome="attempted", not_before=5.0)
    told = note("enqueue", 2.0, intent="a", outcome="acknowledged", job_id=7)
    dead = note("enqueue", 3.0, intent="b", kind="noop", outcome="attempted")
    enqueues = read_history([tried, told, dead], [], {}, 3.0).enqueues
    one = enqueues["a"]
    assert (one.outcome, one.job_id, one.not_before, one.mono) == ("acknowledged", 7, 5.0, 1.0)
    assert enqueues["b"].outcome == "attempted"


def test_ends_belong_to_their_starts() -> None:
    """By job, token and process; a run without an end has none."""
    lines = [
        note("start", 1.0, **RUN, assignment=3, pid=10, at=101.0),
        note("start", 4.0, **RUN, assignment=5, pid=20, at=None),
        note("end", 6.0, **RUN, assignment=5, pid=20, at=106.0, how="returned"),
    ]
    first, second = read_history(lines, [], {}, 3.0).runs
    assert (first.assignment, first.began_at, first.ended, first.how) == (3, 101.0, None, None)
    assert (second.began, second.ended, second.ended_at, second.how) == (
        4.0,
        6.0,
        106.0,
        "returned",
    )


def test_a_fault() -> None:
    """Its nodes and their jobs, or None without a snapshot."""
    told = {"kind": "kill worker", "nodes": ["n1"], "pids": [5], "frozen": False, "to": 2.0}
    line = note("fault", 3.0, **told, evidence="dead", assigned=[[7, 3]], **{"from": 1.0})
    unseen = {**line, "nodes": None, "assigned": None, "from": 4.0, "to": 5.0}
    first, second = read_history([unseen, line], [], {}, 3.0).faults
    assert (first.began, first.ended, first.assigned) == (1.0, 2.0, frozenset({(7, 3)}))
    assert first.hurts("n1")
    assert not first.hurts("n2")
    assert second.hurts("n2")
    assert second.assigned is None
