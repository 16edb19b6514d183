"""txqueue beside other queues: the same work, on one machine, by turns.

    python -m benchmarks.rivals [--rows ROW,…] [--tcp] [--cloud] [--disk MS] [--network MS]
                                [--folder FOLDER] [jobs [rounds [name …]]]

The others are graphile-worker (needs npm), PGQueuer, pgmq (by its SQL), procrastinate, Oban (needs
Python 3.12), and Celery (needs redis-server); and of steps DBOS and Absurd; all, or those that are
named. Installs them into a temporary folder (or into FOLDER, where the next run finds them), runs a
fresh embedded server, and measures one thing with each of them before the next, some rounds. Rows:

bulk     enqueueing one at a time on one connection and in bulk, and two workers that drain a full
         queue of jobs that do nothing
idle     how soon a job starts on an idle worker, one every 20 ms
steady   that at a steady 500 a second, with the CPU time in seconds of 1,000 such jobs
joined   idle and steady of txqueue where its process has joined the node
rest     what all processes of an idle worker, of txqueue's a node with one, take of memory (RSS and
         PSS in MiB), and how many statements (Celery: commands) they send a second
held     ten waves of a tenth of the jobs, each enqueued and drained, while another session holds a
         snapshot: the speed of the last one, as a part of the first one's
steps    jobs of five empty steps a second by two workers, one such job for every 20 of the others:
         of txqueue, DBOS and Absurd; for a rival from the begin of the first job that ran

Jobs of 1 ms, of graphile-worker, PGQueuer and pgmq only:

slots    drains by two workers that run 4, 16 or 64 jobs at a time in all, 1,000 jobs a slot
pressure 10,000 jobs a second for 5 s, in batches of 100, with 64 slots: how many ran a second, and
         how soon they started
batches  how soon jobs start, 200 a second singly (of txqueue by plain SQL) and 800 a second in
         batches of 10; batch_sql: jobs a second of statements that enqueue 500 each, by a call
         of all, a call of each, and a bare insert into a table with the same indexes
reads    a job's state by the client's call, and by a bare select, a second; only PGQueuer has one

With --cloud a commit takes 2 ms longer (--disk 2), and other rows are measured: of txqueue, of
graphile-worker, and of a bare insert into a table. pgbench enqueues by plain SQL, one job a
transaction, while a node with two workers, or a worker of graphile-worker, runs the jobs:

enqueue_1, enqueue_8, enqueue_32  of so many clients: transactions a second, and how soon a job
         starts after its client has the answer of its commit (below 0: before that)
lone     that of one client that enqueues 50 a second
standby  16 clients; each commit waits until a standby has applied it, 20 ms late; "no node" is
         txqueue without a node
commit_delay  16 clients with commit_delay = 5000, commit_siblings = 0

--disk MS makes fdatasync take so much longer (by a library that cc compiles and the server loads),
--network MS puts so much of a round trip between the server and all its clients; both for any
rows. Of a bare insert `idle` is then the floor: half a round trip there, a commit, and half a round
trip to the worker. --tcp connects through a port of this host, which trusts all accounts of it, as
long as this runs; --network does so, too; otherwise through a unix socket.

Prints all figures as JSON, their medians also as a table, and how many times better txqueue is: the
middle of the rounds' ratios. Figures of one run belong to one machine and one hour: compare them
with each other and nothing else.

The rivals' time of a drain is from the first job that ran to the last one that ran; txqueue's also
has the claim of the first and the completion of the last. graphile-worker, pgmq and Celery delete
jobs that are done; the others keep them. pgmq has no worker: ours reads ahead, runs and deletes,
and nothing else. With Celery's defaults, used here, a job is forgotten when a worker begins it, and
Redis answers before it has written anything: a crash of either loses jobs.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.reads import BATCH
from benchmarks.rivals.cloud import CONDITIONS, server
from benchmarks.rivals.commits import CLIENTS, LONE
from benchmarks.rivals.installed import RIVALS, VERSIONS, rivals
from benchmarks.rivals.ours import Bare, Ours, RivalBySql
from benchmarks.rivals.rival import Rival, Stage
from txqueue.store.inquiries.reader import Session
from txqueue_bench.environment import warm_log
from txqueue_torture.server import Server, short_folder

ROWS = (
    *("bulk", "idle", "steady", "joined", "rest", "held", "steps"),
    *("slots", "pressure", "reads", "batches"),
)
CLOUD_ROWS = (*CLIENTS, LONE)
FALLS = ("p50", "p95", "p99", "cpu", "rss", "pss", "statements")
BY_SQL = {
    "graphile-worker": (
        "select graphile_worker.add_job('started', '{}')",
        "select count(*) from graphile_worker.add_jobs(array(select json_populate_record("
        """null::graphile_worker.job_spec, '{"identifier": "brief", "payload": {}}')"""
        f" from generate_series(1, {BATCH})))",
    ),
    "pgmq": (
        "select pgmq.send('jobs', '{}')",
        """select count(*) from pgmq.send_batch('jobs', array(select '{"task": "brief"}'::jsonb"""
        f" from generate_series(1, {BATCH})))",
    ),
}
"""Of each rival, the statement that enqueues a job, and the one that enqueues many."""

Systems = Mapping[str, Mapping[str, Stage]]
Measured = Mapping[str, Mapping[str, list[float]]]


def better(what: str, mine: float, theirs: float) -> float:
    """Say how many times as good one figure is as another; 0 if one of them is not above 0."""
    if min(mine, theirs) <= 0:
        return 0.0
    return round(theirs / mine if what.endswith(FALLS) else mine / theirs, 2)


def summary(figures: Measured) -> dict[str, Any]:
    """Return the medians, and how many times as good txqueue's figures are as each rival's: the
    middle of the rounds' own ratios, as the machine's pace changes from round to round.
    """
    mine = figures["txqueue"]
    return {
        "medians": {
            name: {what: round(median(rounds), 2) for what, rounds in its.items()}
            for name, its in figures.items()
        },
        "times_as_good": {
            name: {
                what: round(median(map(partial(better, what), mine[what], rounds)), 2)
                for what, rounds in its.items()
                if what in mine
            }
            for name, its in figures.items()
            if name != "txqueue"
        },
    }


def table(told: Mapping[str, Any]) -> Table:
    """Return the medians as a table, a column for each system; beside it, how good txqueue is."""
    medians, ratios = told["medians"], told["times_as_good"]
    shown = Table("what", *medians)
    for what in dict.fromkeys(what for its in medians.values() for what in its):
        cells = [
            f"{its.get(what, ''):}"
            + (f" ({ratios[name][what]})" if what in ratios.get(name, {}) else "")
            for name, its in medians.items()
        ]
        shown.add_row(what, *cells)
    return shown


def turns(systems: Systems, rows: Sequence[str]) -> Iterator[tuple[str, str, Stage]]:
    """Give one round's measurements: each of them by all systems, before the next."""
    for what in rows:
        for name, stages in systems.items():
            if what in stages:
                yield name, what, stages[what]


def alike(rows: Sequence[str]) -> list[list[str]]:
    """Put rows together that are measured under the same condition of the server."""
    plain = [row for row in rows if row not in CONDITIONS]
    return [group for group in (plain, *([row] for row in rows if row in CONDITIONS)) if group]


def systems_of(one: Server, dsn: str, others: Mapping[str, Rival]) -> Systems:
    """Return what is measured, and how."""
    programs = Path(f"/proc/{one.postmaster}/exe").resolve().parent
    ours = Ours(dsn, one.folder / "postgres.log", programs)
    theirs = {
        name: RivalBySql(each, programs, *BY_SQL[name]).stages if name in BY_SQL else each.stages
        for name, each in others.items()
    }
    return {
        "txqueue": ours.stages,
        "no node": ours.alone,
        "bare insert": Bare(dsn, programs).stages,
        **theirs,
    }


def measured(
    plan: argparse.Namespace, one: Server, session: Session, systems: Systems, console: Console
) -> Measured:
    """Measure all rows, some rounds."""
    figures: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for rows in alike(plan.rows):
        with CONDITIONS.get(rows[0], lambda _: nullcontext())(one):
            for turn in range(plan.rounds):
                for name, what, measure in turns(systems, rows):
                    session.rows("checkpoint")
                    told = {figure: round(it, 2) for figure, it in measure(plan.jobs).items()}
                    console.print(f"round {turn + 1}, {what}: {name} {told}")
                    for figure, value in told.items():
                        figures[name][figure].append(value)
    return figures


def planned(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser("python -m benchmarks.rivals", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("jobs", nargs="?", type=int, default=200_000)
    parser.add_argument("rounds", nargs="?", type=int, default=3)
    parser.add_argument("names", nargs="*", metavar="name")
    parser.add_argument("--rows", type=lambda text: text.split(","))
    parser.add_argument("--tcp", action="store_true")
    parser.add_argument("--cloud", action="store_true")
    parser.add_argument("--disk", type=float, metavar="MS")
    parser.add_argument("--network", type=float, default=0.0, metavar="MS")
    parser.add_argument("--folder", type=Path)
    plan = parser.parse_args(words)
    plan.rows = plan.rows or [*(CLOUD_ROWS if plan.cloud else ROWS)]
    plan.names = plan.names or [*(BY_SQL if plan.cloud else RIVALS)]
    plan.disk = (2.0 if plan.cloud else 0.0) if plan.disk is None else plan.disk
    for given, known in ((plan.rows, (*ROWS, *CLOUD_ROWS)), (plan.names, RIVALS)):
        if unknown := set(given) - set(known):
            parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    return plan


def main(plan: argparse.Namespace) -> None:
    """Run and print."""
    console = Console(stderr=True)
    with ExitStack() as stack:
        folder = stack.enter_context(short_folder())
        one, dsn = stack.enter_context(
            server(folder, by_tcp=plan.tcp, disk=plan.disk, network=plan.network)
        )
        place = plan.folder or folder / "rivals"
        place.mkdir(parents=True, exist_ok=True)
        log = one.folder / "postgres.log"
        others = stack.enter_context(rivals(dsn, log, place.absolute(), plan.names))
        for rival in others.values():
            rival.ask("migrate")
        session = stack.enter_context(one.session())
        warm_log(session)
        figures = measured(plan, one, session, systems_of(one, dsn, others), console)
    told = summary(figures)
    console.print(table(told))
    versions = {name: VERSIONS[name] for name in plan.names}
    where = {"disk_ms": plan.disk, "network_ms": plan.network}
    Console().print_json(data={"versions": versions, **where, "figures": figures, **told})


if __name__ == "__main__":
    main(planned())
