"""``txqueue torture``: injects faults and checks every promise."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from txqueue.cli.options import Command, GlobalOptions
from txqueue.cli.output import Lines, facts, note, notes, show, styled, table
from txqueue.demo.environment import bars
from txqueue.model.humanize import amount, duration

if TYPE_CHECKING:
    from rich.console import RenderableType

    from txqueue_torture.campaign import Places
    from txqueue_torture.scenario import Scenario, ScenarioOutcome

__all__ = ["torture"]

LONG = 10.0
COLUMNS = (
    "scenario",
    ">took",
    ">events",
    ">enqueued",
    ">done",
    ">duplicates",
    ">restart",
    "violations",
)


@click.command(cls=Command, short_help="Inject faults and check every promise.")
@click.argument("names", metavar="[SCENARIO]...", nargs=-1)
@click.option("--all", "is_all", is_flag=True, help="Run all scenarios that this machine allows.")
@click.option(
    "--ha",
    "is_ha",
    is_flag=True,
    help="Run all scenarios on a cluster of Patroni and etcd, which --all leaves out.",
)
@click.option("--list", "is_list", is_flag=True, help="List the scenarios; run none.")
@click.option("--embedded", is_flag=True, help="Use a fresh embedded server, which may be damaged.")
@click.option(
    "--long", "is_long", is_flag=True, help="Run each scenario ten times as long, for a night."
)
@click.option(
    "--jobs",
    type=click.IntRange(1, 16),
    default=1,
    show_default=True,
    help="How many scenarios at a time.",
)
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the records and the nodes' logs in this folder; they are always kept when a"
    " promise was broken.",
)
@click.pass_obj
def torture(
    options: GlobalOptions,
    names: tuple[str, ...],
    *,
    is_all: bool,
    is_ha: bool,
    is_list: bool,
    embedded: bool,
    is_long: bool,
    jobs: int,
    keep: Path | None,
) -> int:
    """Inject faults into nodes and clients started for this, and check every promise.

    Each scenario enqueues work, injects faults while it runs, and records every enqueue, start and
    end. The checker decides from the records whether jobs were lost, ran twice without cause, ran
    too early, or ran although they must not. The exit status is 1 if so.

    Without --embedded it uses your database, in a temporary schema, and damages only its own
    processes and connections.
    """
    from txqueue_torture.scenario import known_scenarios

    known = known_scenarios()
    if is_list:
        listed = [
            {"name": scenario.name, "summary": scenario.summary} for scenario in known.values()
        ]
        show(options, {"scenarios": listed}, lambda: [_list(listed)])
        return 0
    chosen = _chosen(known, names, is_all=is_all, is_ha=is_ha)
    folder = keep or Path(tempfile.mkdtemp(prefix="txqueue-torture-"))
    scale = LONG if is_long else 1.0
    outcomes = _carry_out(options, chosen, folder, embedded=embedded, jobs=jobs, scale=scale)
    violations = sum(len(outcome.violations) for outcome in outcomes)
    document = {"scenarios": [outcome.as_dict() for outcome in outcomes], "violations": violations}
    show(options, document, lambda: _tables(outcomes))
    if violations:
        note(options, f"the records are in {folder}")
    elif keep is None:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if violations else 0


def _chosen(
    known: Mapping[str, Scenario], names: Sequence[str], *, is_all: bool, is_ha: bool
) -> list[Scenario]:
    if unknown := [name for name in names if name not in known]:
        raise click.UsageError(f"there is no scenario {', '.join(unknown)}; --list shows them")
    if not (names or is_all or is_ha):
        raise click.UsageError("name scenarios, or say --all or --ha; --list shows them")
    families = {False: is_all, True: is_ha}
    named = [known[name] for name in dict.fromkeys(names)]
    return [it for it in known.values() if families[it.is_on_cluster]] or named


def _carry_out(
    options: GlobalOptions,
    chosen: Sequence[Scenario],
    folder: Path,
    *,
    embedded: bool,
    jobs: int,
    scale: float,
) -> list[ScenarioOutcome]:
    from txqueue_torture.campaign import carry_out

    done: list[ScenarioOutcome] = []
    with ExitStack() as stack:
        stages = stack.enter_context(bars(notes(options)))
        places = _places(options, stack, embedded)
        advance = stages.begin("scenarios", len(chosen))

        def report(outcome: ScenarioOutcome) -> None:
            done.append(outcome)
            advance(len(done))
            note(options, f"{outcome.name}: {_verdict(outcome)}")

        return carry_out(chosen, places, folder, at_once=jobs, scale=scale, report=report)


def _places(options: GlobalOptions, stack: ExitStack, embedded: bool) -> Places:
    from txqueue.embedded import EmbeddedServer
    from txqueue_torture.campaign import SETTINGS, EmbeddedPlaces, OwnSchemas

    if not embedded:
        return OwnSchemas(options.chosen_dsn)
    return EmbeddedPlaces(stack.enter_context(EmbeddedServer(settings=SETTINGS)))


def _list(listed: Sequence[Mapping[str, str]]) -> RenderableType:
    return table("Scenarios", ["name", "what happens"], (row.values() for row in listed))


def _tables(outcomes: Sequence[ScenarioOutcome]) -> Lines:
    yield table("", COLUMNS, (_row(outcome) for outcome in outcomes))
    for outcome in outcomes:
        if outcome.figures or outcome.violations or outcome.skipped:
            yield styled("")
            yield styled(outcome.name, "bold")
            yield facts(_details(outcome))


def _row(outcome: ScenarioOutcome) -> list[object]:
    if outcome.skipped:
        return [outcome.name, *["-"] * (len(COLUMNS) - 2), styled("skipped", "dim")]
    restart = outcome.restart_seconds
    count = len(outcome.violations)
    verdict = styled(_verdict(outcome), "bold red" if count else "green")
    return [
        outcome.name,
        duration(outcome.seconds),
        *map(amount, (outcome.events, outcome.enqueued, outcome.done, outcome.duplicates)),
        "-" if restart is None else duration(restart),
        verdict,
    ]


def _verdict(outcome: ScenarioOutcome) -> str:
    if outcome.skipped:
        return "skipped"
    return f"{len(outcome.violations)}" if outcome.violations else "none"


def _details(outcome: ScenarioOutcome) -> Iterator[tuple[str, Any]]:
    if outcome.skipped:
        yield "skipped", outcome.skipped
    yield from ((name, str(value)) for name, value in outcome.figures.items())
    for violation in outcome.violations:
        yield violation.invariant, styled(violation.text, "red")
