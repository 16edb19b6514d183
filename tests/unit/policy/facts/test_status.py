"""What the counts of the database mean."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from txqueue.policy.facts.obstacles import MOST_WARNED, LiveJobs, Rest
from txqueue.policy.facts.status import depth, largest, queues
from txqueue.policy.facts.warnings import (
    application_warnings,
    explained,
    full,
    idle,
    paused,
    recurring,
    unfamiliar,
    unknown_type,
    unserved_queue,
    warnings,
)

NOW = datetime(2030, 1, 31, 12, tzinfo=UTC)


def row(queue: str, state: str, jobs: int, **more: Any) -> dict[str, Any]:
    """Counts as the view gives them."""
    given = {"work_type": "mail", "waiting_for": None, "oldest": NOW - timedelta(seconds=9)}
    return {"queue": queue, "state": state, "jobs": jobs, **given, **more}


def node(name: str, state: str = "alive", **more: Any) -> dict[str, Any]:
    """A node as the view gives it."""
    given = {"hostname": "h", "queues": ["default"], "work_types": ["mail"]}
    return {"name": name, "state": state, "heartbeat_at": NOW, **given, **more}


def kinds(found: list[dict[str, str]]) -> list[tuple[str, str]]:
    """The kinds of the warnings."""
    return [(warning["kind"], warning["subject"]) for warning in found]


def test_a_queue_is_summed_up_over_types_and_reasons() -> None:
    """Depth by state, why jobs wait, the oldest ready one, and the rate."""
    live = [
        row("default", "ready", 3),
        row("default", "ready", 2, work_type="sms", oldest=NOW - timedelta(seconds=20)),
        row("default", "waiting", 4, waiting_for="time"),
        row("default", "waiting", 1, waiting_for="time", work_type="sms"),
    ]
    recent = [{"queue": "default", "jobs": 120, "since": NOW - timedelta(minutes=1)}]
    (queue,) = queues(live, recent, [node("a")], NOW)
    assert (queue["ready"], queue["waiting"], queue["assigned"], queue["failed"]) == (5, 5, 0, 0)
    assert queue["waiting_for"] == {"time": 5}
    assert queue["oldest_ready_seconds"] == 20
    assert (queue["done_per_second"], queue["done_last_minute"]) == (2, 120)
    assert queue["nodes"] == ["a"]


def test_a_served_queue_without_jobs_is_shown() -> None:
    """And one without nodes too, sorted by name."""
    found = queues([row("b", "ready", 1)], [], [node("n", queues=["c", "a"])], NOW)
    assert [queue["queue"] for queue in found] == ["a", "b", "c"]
    assert found[0]["oldest_ready_seconds"] is None


def live_of(*rows: dict[str, Any], **more: Rest) -> LiveJobs:
    """Live jobs by queue and by work type."""
    return LiveJobs(rows, rows, **more)


def test_all_is_well() -> None:
    """A queue that is served, of a type that is known: nothing to say."""
    assert warnings(live_of(row("default", "ready", 1)), [node("a")], [], NOW) == []


def test_a_dead_node_serves_nothing() -> None:
    """Its queue then has no node, and neither have its types."""
    dead = node("a", "dead", heartbeat_at=NOW - timedelta(minutes=2))
    found = warnings(live_of(row("default", "ready", 1)), [dead], [], NOW)
    assert kinds(found) == [
        ("dead_node", "a"),
        ("unserved_queue", "default"),
        ("unknown_type", "mail"),
    ]
    assert "no heartbeat for 2 min" in found[0]["what"]
    assert "--queues default" in found[1]["remedy"]


DEAD = node("a", "dead", heartbeat_at=NOW - timedelta(minutes=2))
STOPPED = node("b", "stopped", heartbeat_at=NOW)
PLANNED = {"active": 1, "overdue": 1, "refused": 0, "such_as": "nightly"}


@pytest.mark.parametrize(
    ("rows", "nodes", "schedules", "said"),
    [
        ([], [], 0, None),
        ([], [STOPPED], 0, None),
        ([], [], 1, "no node runs; 1 schedule waits for one"),
        ([], [DEAD], 0, "no node runs; node a did, whose last heartbeat was 2 min ago"),
        ([row("default", "assigned", 2)], [STOPPED], 0, "no node runs; 2 jobs wait for one"),
    ],
)
def test_that_no_node_runs_is_told_if_work_waits_or_the_last_node_is_dead(
    rows: list[dict[str, Any]], nodes: list[dict[str, Any]], schedules: int, said: str | None
) -> None:
    """It comes first; what else is wrong follows, but for what follows from it."""
    live = live_of(*rows, row("default", "failed", 1))
    found = [*warnings(live, nodes, [], NOW), *recurring({**PLANNED, "overdue": schedules})]
    first, *others = explained(found, live, nodes, schedules, NOW)
    assert first["what"] == (said or "1 job of mail failed for good")
    assert kinds(others) == ([("failed_jobs", "mail")] if said else [])


def test_while_a_node_drains_each_warning_stands() -> None:
    """No other one explains them."""
    live = live_of(row("default", "ready", 1))
    nodes = [node("a", "draining"), DEAD]
    found = warnings(live, nodes, [], NOW)
    assert explained(found, live, nodes, 1, NOW) == found
    assert kinds(found) == [("dead_node", "a")]


def test_types_that_no_live_node_has() -> None:
    """Whether the job waits for its type or was enqueued while a node had it."""
    live = [
        row("default", "waiting", 1, waiting_for="type", work_type="x"),
        row("default", "ready", 1500, work_type="y"),
        row("default", "ready", 1),
    ]
    found = warnings(live_of(*live), [node("a")], [], NOW)
    assert kinds(found) == [("unknown_type", "x"), ("unknown_type", "y")]
    assert "1,500 jobs" in found[1]["what"]


def test_failed_jobs_are_pointed_at() -> None:
    """With the command that shows them."""
    (found,) = warnings(live_of(row("default", "failed", 1)), [node("a")], [], NOW)
    assert found["remedy"].endswith("txqueue jobs --state failed --type mail")


def test_pauses_are_warned_of_with_the_command_to_resume() -> None:
    """A key is quoted for the shell; what is only limited is no warning."""
    kept = [("queue", "mail", True), ("group", "a b", True), ("tenant", "t", False)]
    found = paused([{"kind": kind, "key": key, "is_paused": held} for kind, key, held in kept])
    assert kinds(found) == [("paused", "mail"), ("paused", "a b")]
    assert found[0]["remedy"].endswith("txqueue resume mail")
    assert found[1]["remedy"].endswith("txqueue resume --group 'a b'")


def test_old_snapshots() -> None:
    """One of a minute may be a report; a slot without a moment is always told."""
    held = {"kind": "transaction", "name": "psql", "pid": 7}
    young = {**held, "since": NOW - timedelta(minutes=1)}
    old = {**held, "since": NOW - timedelta(hours=1)}
    slot = {"kind": "replication slot", "name": "s", "pid": None, "since": None}
    found = warnings(live_of(), [], [young, old, slot], NOW)
    assert kinds(found) == [("old_snapshot", "psql"), ("old_snapshot", "s")]
    assert "transaction psql (pid 7)" in found[0]["what"]


def test_schedules_that_no_node_ticks_are_warned_of() -> None:
    """And those whose last job was refused; none of it while all is well."""
    well = {"active": 5, "paused": 1, "overdue": 0, "refused": 0, "such_as": None}
    assert recurring(well) == []
    found = recurring({**well, "overdue": 2, "refused": 1, "such_as": "nightly"})
    assert kinds(found) == [("overdue_schedules", "nightly"), ("refused_schedules", "nightly")]


def test_worksets_that_were_filled_and_never_started_are_warned_of() -> None:
    """Nothing of them would ever be done."""
    worksets = [
        {"name": "letter", "remaining": 5000, "is_started": False},
        {"name": "begun", "remaining": 5000, "is_started": True},
        {"name": "empty", "remaining": 0, "is_started": False},
    ]
    found = idle(worksets)
    assert kinds(found) == [("idle_workset", "letter")]
    assert "5,000 items" in found[0]["what"]


def test_a_node_that_does_not_hold_what_is_assigned_to_it() -> None:
    """It gives it back by itself; should it not, an operator can."""
    found = warnings(
        live_of(), [node("a", report={"missing": 3}), node("b", report={"missing": 0})], [], NOW
    )
    assert kinds(found) == [("not_held", "a")]
    assert "3 jobs" in found[0]["what"]


def looked(state: str, jobs: int, **more: Any) -> dict[str, Any]:
    """Jobs of a state that were looked at, as the query gives them."""
    given = {"incarnation": None, "looked": jobs, "oldest": NOW - timedelta(seconds=9)}
    others = ["mail"] if jobs else None
    return {"state": state, "jobs": jobs, "others": others, **given, **more}


def test_the_depth_of_a_queue_says_where_the_count_stopped() -> None:
    """And on which nodes its jobs run."""
    rows = [
        looked("waiting", 4, looked=100),
        looked("ready", 3),
        looked("assigned", 2, incarnation=7),
        looked("assigned", 0, incarnation=8, looked=5, oldest=None),
    ]
    found = depth(rows, 100, NOW)
    assert [found[state] for state in ("waiting", "ready", "assigned", "failed")] == [4, 3, 2, 0]
    assert found["partial"] == {"waiting"}
    assert found["others"] == ["mail"]
    assert found["running_on"] == {7: 2}
    assert found["oldest_ready_seconds"] == 9
    assert depth([], 100, NOW)["oldest_ready_seconds"] is None


def test_what_no_live_node_has_is_said_with_the_remedy() -> None:
    """A draining node still knows its types, and takes nothing from its queues."""
    nodes = [node("a", "draining"), node("b", "dead", queues=["mail"])]
    assert unknown_type("mail", nodes, is_published=True) is None
    assert unserved_queue("default", [node("a")], NOW) is None
    remedy = "start a node with --queues 'a mail'"
    assert unserved_queue("a mail", nodes, NOW) == ("no live node serves the queue a mail", remedy)
    said = "every node that serves the queue default is draining: a"
    assert unserved_queue("default", nodes, NOW) == (
        said,
        "start another node, or, unless it is stopping: txqueue undrain a",
    )
    live = live_of(row("default", "ready", 2), row("mail", "ready", 1))
    told = [each["what"] for each in warnings(live, nodes, [], NOW)]
    assert (
        "no live node serves the queue mail, which has 1 job; node b did, whose last heartbeat was"
        " 0 s ago"
    ) in told
    assert not any("the queue default" in what for what in told)
    for is_published, said in ((True, "no live node has"), (False, "no node has ever registered")):
        found = unknown_type("sms", nodes, is_published=is_published)
        assert found == (f"{said} the work type sms", "start a node whose --app defines it")


def test_sentences_about_one_thing_are_in_the_singular() -> None:
    """Of what is counted by the database."""
    live = live_of(other_queues=Rest(1, {"ready": 1}), other_types=Rest(1, {"ready": 1}))
    report = {"unable": 1, "missing": 1}
    found = warnings(live, [node("a", report=report)], [], NOW)
    found += full([{"kind": "queue", "key": "q", "backlog": 1, "is_full": True}])
    found += recurring({"overdue": 1, "refused": 0, "such_as": "s"})
    assert found[-1]["remedy"].endswith(": txqueue schedule remove s")
    assert {each["what"] for each in found} == {
        "no live node serves 1 more queue, which has 1 job",
        "no live node has 1 more work type, which has 1 job",
        "1 worker of node a can start no job: it does not answer, or handlers of ended runs fill"
        " its threads",
        "node a does not hold 1 job that is assigned to it",
        "the queue q is full: its waiting and ready jobs have reached its backlog"
        " limit of 1; new ones are refused until there are fewer than 1",
        "1 of the schedules is overdue by more than a minute, such as s",
    }


def test_warnings_of_a_kind_are_few() -> None:
    """However many queues and types there are: one warning says how many more, with their jobs."""
    rows = [row(f"q{each:03}", "ready", 2, work_type=f"t{each:03}") for each in range(100)]
    rest = Rest(99_900, {"ready": 99_900, "failed": 7})
    found = warnings(live_of(*rows, other_queues=rest, other_types=rest), [], [], NOW)
    assert len(found) < 3 * (MOST_WARNED + 2)
    said = " | ".join(each["what"] for each in found)
    assert "81 more warnings of this kind: unserved queue" in said
    more = [each for each in found if "more warnings" in each["what"]]
    assert not any("q0" in text or "t0" in text for each in more for text in each.values())
    many = [{"kind": "group", "key": str(each), "is_paused": True} for each in range(1000)]
    assert len(paused(many)) == MOST_WARNED + 1


def test_the_names_left_out_are_counted_with_their_jobs() -> None:
    """No node serves one of them, as the served ones are listed."""
    rest = Rest(99_900, {"ready": 99_900, "failed": 7})
    found = warnings(live_of(other_queues=rest, other_types=rest), [node("a")], [], NOW)
    assert [each["what"] for each in found] == [
        "no live node serves 99,900 more queues, which have 99,900 jobs",
        "no live node has 99,900 more work types, which have 99,900 jobs",
        "7 jobs of other work types failed for good",
    ]


def test_the_largest_rows_stay_in_their_order() -> None:
    """Of more rows than are shown."""
    sizes = {"a": 1, "b": 9, "c": 2, "d": 5}
    rows = queues([row(name, "ready", jobs) for name, jobs in sizes.items()], [], [], NOW)
    assert [each["queue"] for each in largest(rows, 2)] == ["b", "d"]
    assert largest(rows, 4) == rows


def test_a_right_that_a_node_lacks_is_warned_of() -> None:
    """Before all else that concerns live nodes, as it may be the cause."""
    said = "permission denied for function complete"
    nodes = [
        node("a", report={"refused": {"said": said, "sqlstate": "42501"}, "unable": 2}),
        node("b", report={"refused": None}),
    ]
    found = warnings(live_of(), nodes, [], NOW)
    assert kinds(found) == [("refused", "a"), ("unable_workers", "a")]
    assert found[0]["what"] == f"the database refuses statements of node a: {said}"
    assert "txqueue_worker" in found[0]["remedy"]


def test_workers_that_can_start_no_job_are_warned_of() -> None:
    """Of nodes that run: a dead one has none."""
    nodes = [node("a", report={"unable": 2}), node("b", report={"unable": 0}), node("c")]
    found = warnings(live_of(), nodes, [], NOW)
    assert kinds(found) == [("unable_workers", "a")]
    assert found[0]["what"] == (
        "2 workers of node a can start no job: they do not answer, or handlers of ended runs fill"
        " their threads"
    )
    assert "those that do not answer and run no job are replaced after 30 s" in found[0]["remedy"]


def test_a_node_whose_workers_have_all_ended_is_warned_of() -> None:
    """Not while its application is first imported, nor one that drains."""
    long_ago, idle = NOW - timedelta(minutes=5), {"workers": 0}
    nodes = [
        node("a", report=idle, started_at=long_ago),
        node("b", report=idle, started_at=NOW),
        node("c", report=idle, started_at=long_ago, state="draining"),
        node("d", report={"workers": 1}, started_at=long_ago),
        node("e", report=None, started_at=long_ago),
    ]
    found = warnings(live_of(), nodes, [], NOW)
    assert kinds(found) == [("no_workers", "a")]
    assert found[0]["what"] == "no worker process of node a runs, so that it starts no job"


def test_nodes_that_run_different_versions_of_the_application() -> None:
    """Those of one queue; dead nodes, and those that have not reported, count for nothing."""
    nodes = [
        node("a", report={"applications": ["11"]}),
        node("b", report={"applications": ["11", "22"]}),
        node("c", report={"applications": ["33"]}, queues=["mail"]),
        node("d", report={"applications": ["44"]}, state="dead"),
        node("e", report=None),
    ]
    (found,) = application_warnings(nodes)
    assert found["what"].endswith("versions of the application: 11 (a, b); 22 (b)")
    assert application_warnings(nodes[:1] + nodes[2:]) == []


def test_a_node_whose_files_have_changed() -> None:
    """It runs what is on its disk no more."""
    found = application_warnings([node("a", report={"applications": ["1"], "is_outdated": True})])
    assert kinds(found) == [("outdated_node", "a")]


def test_a_name_that_nothing_has_may_be_a_misspelt_one() -> None:
    """The warning has the nearest known name, if there is one."""
    known = ["mail", "limited", "limits"]
    assert unfamiliar("queue", "limted", known) == (
        "no live node serves limted and it has no jobs; did you mean limited?"
    )
    assert unfamiliar("tenant", "acme", known) == "the tenant acme has no jobs"
