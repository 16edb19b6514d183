"""What the counts of the database mean."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from txqueue.policy.findings.catalogue import warnings
from txqueue.policy.findings.status import (
    LiveJobs,
    Rest,
    depth,
    largest,
    named_nodes,
    queues,
    unfamiliar,
    unknown_name,
    work_types,
    worker_state,
)
from txqueue.policy.findings.work import by_cause, unknown_type, unserved_queue

NOW = datetime(2030, 1, 31, 12, tzinfo=UTC)


def row(queue: str, state: str, jobs: int, **more: Any) -> dict[str, Any]:
    """Counts as the view gives them."""
    given = {"work_type": "mail", "waiting_for": None, "oldest": NOW - timedelta(seconds=9)}
    return {"queue": queue, "state": state, "jobs": jobs, **given, **more}


def node(name: str, state: str = "alive", **more: Any) -> dict[str, Any]:
    """A node as the view gives it."""
    given = {"hostname": "h", "queues": ["default"], "work_types": ["mail"], "version": "1"}
    times = {"heartbeat_at": NOW, "heartbeat_seconds": 0.0, "started_at": NOW}
    return {"name": name, "state": state, **times, **given, **more}


def kinds(found: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """The kinds of the warnings."""
    return [(warning["kind"], warning["subject"]) for warning in found]


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ((), "starting"),
        (("is_ready",), "ready"),
        (("is_ready", "is_late"), "blocked"),
        (("is_ready", "is_ending", "is_crowded"), "ending"),
    ],
)
def test_the_state_of_a_worker(fields: tuple[str, ...], state: str) -> None:
    """In one word, the gravest first; nodes of older versions do not say whether one ends."""
    known = ("is_ready", "is_stuck", "is_late", "is_apart", "is_crowded")
    assert worker_state({**dict.fromkeys(known, False), **dict.fromkeys(fields, True)}) == state


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


def warned(live: LiveJobs, *nodes: dict[str, Any], **facts: Any) -> list[dict[str, str]]:
    """What is wrong, by the live jobs, the nodes and other facts."""
    return warnings({"live": live, "nodes": nodes, **facts})


def test_all_is_well() -> None:
    """A queue that is served, of a type that is known: nothing to say."""
    assert warned(live_of(row("default", "ready", 1)), node("a")) == []


def test_a_dead_node_serves_nothing() -> None:
    """Its queue then has no node, and neither have its types."""
    dead = node("a", "dead", heartbeat_seconds=120.0)
    found = warned(live_of(row("default", "ready", 1)), dead)
    assert kinds(found) == [
        ("unserved_queue", "default"),
        ("unknown_type", "mail"),
        ("dead_node", "a"),
    ]
    assert "--queues default" in found[0]["remedy"]
    assert "no heartbeat for 2 min" in found[2]["what"]


DEAD = node("a", "dead", heartbeat_seconds=120.0)
STOPPED = node("b", "stopped")


@pytest.mark.parametrize(
    ("rows", "nodes", "schedules", "said"),
    [
        ([], [], 0, None),
        ([], [STOPPED], 0, None),
        ([], [], 1, "no node runs; 1 schedule waits for one"),
        ([], [DEAD], 0, "no node has run for 2 min, the last was a"),
        ([row("default", "assigned", 2)], [STOPPED], 0, "no node runs; 2 jobs wait for one"),
    ],
)
def test_that_no_node_runs_is_told_if_work_waits_or_the_last_node_is_dead(
    rows: list[dict[str, Any]], nodes: list[dict[str, Any]], schedules: int, said: str | None
) -> None:
    """It comes first; what else is wrong follows, but for what follows from it."""
    live = live_of(*rows, row("default", "failed", 1))
    late = [{"name": "nightly", "seconds": 90.0, "has_class": True}] * schedules
    unended = [{"jobs": sum(each["jobs"] for each in rows)}]
    counts = [{"active": schedules, "refused": 0}]
    first, *others = warned(live, *nodes, due_schedules=late, unended=unended, schedules=counts)
    assert first["what"] == (said or "1 job of mail failed for good")
    assert kinds(others) == ([("failed_jobs", "mail")] if said else [])


def test_while_a_node_drains_each_warning_stands() -> None:
    """No other one explains them."""
    live, counts = live_of(row("default", "ready", 1)), [{"active": 1, "refused": 0}]
    found = warned(live, node("a", "draining"), DEAD, unended=[{"jobs": 1}], schedules=counts)
    assert kinds(found) == [("dead_node", "a")]


@pytest.mark.parametrize(("work_type", "shown"), [("mail", "mail"), ("a b", "'a b'")])
def test_failed_jobs_are_pointed_at(work_type: str, shown: str) -> None:
    """With the command that shows them, in which a name with a blank is one word."""
    (found,) = warned(live_of(row("default", "failed", 1, work_type=work_type)), node("a"))
    assert found["remedy"].endswith(f"txqueue jobs --state failed --type {shown}")


def test_pauses_are_warned_of_with_the_command_to_resume() -> None:
    """Since when and by which operator, if that is known; a key is quoted for the shell."""
    kept = [("queue", "mail", 60.0, "ann"), ("group", "a b", None, None)]
    rows = [
        {"kind": kind, "key": key, "seconds": seconds, "actor": actor}
        for kind, key, seconds, actor in kept
    ]
    found = warnings({"pauses": rows})
    assert kinds(found) == [("paused", "mail"), ("paused", "a b")]
    assert found[0]["what"] == "the queue mail is paused for 1 min by ann"
    assert found[1]["what"] == "the group a b is paused"
    assert found[0]["remedy"].endswith("txqueue resume mail")
    assert found[1]["remedy"].endswith("txqueue resume --group 'a b'")


def test_old_snapshots() -> None:
    """One of a minute may be a report; a slot without a moment is always told."""
    held = {"kind": "transaction", "name": "psql", "pid": 7}
    young, old = {**held, "seconds": 60.0}, {**held, "seconds": 3600.0}
    slot = {"kind": "replication slot", "name": "s", "pid": None, "seconds": None}
    found = warnings({"old_snapshots": [young, old, slot]})
    assert kinds(found) == [("old_snapshot", "psql"), ("old_snapshot", "s")]
    assert "transaction psql (pid 7)" in found[0]["what"]


def test_schedules_that_no_node_ticks_are_warned_of() -> None:
    """And those whose last job was refused."""
    assert warnings({"schedules": [{"refused": 0, "such_as": None}]}) == []
    counts = [{"refused": 1, "such_as": "nightly"}]
    due = [{"name": "hourly", "seconds": 3600.0, "has_class": False}]
    found = warnings({"schedules": counts, "due_schedules": due})
    assert kinds(found) == [("overdue_schedules", "hourly"), ("refused_schedules", "nightly")]
    assert found[0]["remedy"].endswith(": txqueue schedule remove hourly")


def test_worksets_that_were_filled_and_never_started_are_warned_of() -> None:
    """Nothing of them would ever be done."""
    worksets = [
        {"name": "letter", "remaining": 5000, "is_started": False},
        {"name": "begun", "remaining": 5000, "is_started": True},
        {"name": "empty", "remaining": 0, "is_started": False},
    ]
    found = warnings({"worksets": worksets})
    assert kinds(found) == [("idle_workset", "letter")]
    assert "5,000 items" in found[0]["what"]


def test_a_node_that_does_not_hold_what_is_assigned_to_it() -> None:
    """It gives it back by itself; should it not, an operator can."""
    found = warned(live_of(), node("a", report={"missing": 3}), node("b", report={"missing": 0}))
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
    assert unserved_queue("default", [node("a")]) is None
    remedy = "start a node with --queues 'a mail'"
    assert unserved_queue("a mail", nodes) == ("no live node serves the queue a mail", remedy)
    said = "every node that serves the queue default is draining: a"
    assert unserved_queue("default", nodes) == (
        said,
        "start another node, or, unless it is stopping: txqueue undrain a",
    )
    live = live_of(row("default", "ready", 2), row("mail", "ready", 1))
    told = [each["what"] for each in warned(live, *nodes)]
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
    full = [{"kind": "queue", "key": "q", "backlog": 1, "is_full": True}]
    counts = [{"refused": 1, "such_as": "s"}]
    found = warned(live, node("a", report=report), controls=full, schedules=counts)
    assert {each["what"] for each in found} == {
        "no live node serves 1 more queue, which has 1 job",
        "no live node has 1 more work type, which has 1 job",
        "1 worker of node a can start no job: 1 blocked: a handler does not return, or the process"
        " is stopped",
        "node a does not hold 1 job that is assigned to it",
        "the queue q is full: its waiting and ready jobs have reached its backlog"
        " limit of 1; new ones are refused until there are fewer than 1",
        "1 of the schedules is without their last job, such as s",
    }


def test_the_names_left_out_are_counted_with_their_jobs() -> None:
    """No node serves one of them, as the served ones are listed."""
    rest = Rest(99_900, {"ready": 99_900, "failed": 7})
    found = warned(live_of(other_queues=rest, other_types=rest), node("a"))
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


def test_workers_that_can_start_no_job_are_warned_of() -> None:
    """Of nodes that run: a dead one has none. With the jobs that block them."""
    closed = {"workers": 3, "unable": 2, "closed": {"blocked": 1, "stuck": 1}, "blocking": [7]}
    nodes = [node("a", report=closed), node("b", report={"unable": 0}), node("c")]
    found = warned(live_of(), *nodes)
    assert kinds(found) == [("unable_workers", "a")]
    assert found[0]["what"] == (
        "2 workers of node a can start no job: 1 blocked by job 7: a handler does not return, or"
        " the process is stopped, 1 stuck: handlers of ended runs fill the threads"
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
    found = warned(live_of(), *nodes)
    assert kinds(found) == [("no_workers", "a")]
    assert found[0]["what"] == "no worker process of node a runs, so that it starts no job"


def test_nodes_that_run_different_versions_of_the_application() -> None:
    """Those of one queue; dead nodes, and those that have not reported, count for nothing."""
    nodes = [
        node("a", report={"applications": ["11"]}),
        node("b", report={"applications": ["11", "22"]}),
        node("c", report={"applications": ["33"]}, queues=["mail"]),
        node("d", report={"applications": ["44"]}, state="stopped"),
        node("e", report=None),
    ]
    (found,) = warnings({"nodes": nodes})
    assert found["what"].endswith("versions of the application: 11 (a, b); 22 (b)")
    assert warnings({"nodes": nodes[:1] + nodes[2:]}) == []


def test_a_node_whose_files_have_changed() -> None:
    """It runs what is on its disk no more."""
    report = {"applications": ["1"], "is_outdated": True}
    found = warnings({"nodes": [node("a", report=report)]})
    assert kinds(found) == [("outdated_node", "a")]


def test_no_restart_ends_the_version_that_runs_a_held_type() -> None:
    """Only nodes that hold it are to be restarted; what lists the type says where it is held."""
    report = {"applications": ["1"], "is_outdated": True, "held": []}
    nodes = [
        node("a", report=report),
        node("b", report={**report, "applications": ["2"], "held": ["mail"]}, work_types=[]),
    ]
    remedies = [(each["subject"], each["remedy"]) for each in warnings({"nodes": nodes})]
    keep = "restart only nodes on which a type is held; the others run its jobs meanwhile"
    assert remedies == [("default", keep), ("a", keep), ("b", "restart it on h")]
    (mail,) = work_types([{"work_type": "mail"}], [], nodes)
    assert named_nodes(mail) == ["a", "b (held)"]
    assert unknown_type("mail", nodes[1:], is_published=True) is None


def test_a_name_that_nothing_has_may_be_a_misspelt_one() -> None:
    """The warning has the nearest known name, if there is one."""
    known = ["mail", "limited", "limits"]
    assert unfamiliar("queue", "limted", known) == (
        "no live node serves limted and it has no jobs; did you mean limited?"
    )
    assert unfamiliar("tenant", "acme", known) == "the tenant acme has no jobs"


def test_a_dead_node_stands_for_what_only_it_had_and_one_warning_for_many_of_its_kind() -> None:
    """In the order of the warnings."""
    dead = node("a", "dead", heartbeat_seconds=120.0)
    many = [row("other", "failed", 1, work_type=f"type {number}") for number in range(4)]
    found = warned(live_of(row("default", "ready", 1), *many), dead, node("b", queues=["other"]))
    groups = [(kinds([first])[0], len(others)) for first, others in by_cause(found, [dead])]
    assert groups == [(("dead_node", "a"), 1), (("failed_jobs", "type 0"), 3)]


def test_the_nearest_come_first_and_the_rest_is_counted() -> None:
    """By their likeness, not by the alphabet."""
    known = ["a", "b", "c", "d", "e", "reports", "mail"]
    said = unknown_name("queue", "report", known, is_all=True)
    assert said is not None
    assert said.startswith("No live job, node or limit has the queue report; there are reports, ")
    assert said.endswith(" and 2 more.")
    said = unknown_name("queue", "report", known, is_all=False)
    assert said is not None
    assert said.endswith(" and at least 2 more.")


def test_a_name_that_exists_is_not_said() -> None:
    """The list is empty for another reason."""
    assert unknown_name("group", "g", ["g"], is_all=True) is None


def test_nothing_of_the_kind() -> None:
    """There is nothing to choose from."""
    assert unknown_name("node", "n", [], is_all=True) == "No node has the name n; there is no node."
