"""``txqueue types``: work types, the schemas of their payloads, and which jobs wait in vain."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, Final

import click

from txqueue.cli.options import GlobalOptions, command, known_names
from txqueue.cli.output import Columns, Lines, amount_of, show, show_list, styled
from txqueue.cli.source import read_database
from txqueue.errors import UnknownWorkType
from txqueue.model.humanize import counted
from txqueue.policy.findings.status import named_nodes

if TYPE_CHECKING:
    from txqueue.policy.readability import Readability

# How many jobs are read at a time.
_PAGE: Final = 500
_FAULT: Final = 1
# The part to which a schema refers, in JSON.
_REFERENCE: Final = re.compile(r'"\$ref": "(?:[^"]*/)?([^"/]*)"')


@command()
@click.argument(
    "work_type", metavar="[TYPE]", required=False, shell_complete=known_names("work_type")
)
@click.option("--schema", "is_shown", is_flag=True, help="Print the JSON Schemas of payloads.")
@click.option(
    "--app",
    metavar="MODULE",
    multiple=True,
    help="Take the schemas from the classes of this module, not from the database; repeatable.",
)
@click.option(
    "--check",
    "checked",
    type=click.File(encoding="utf-8"),
    metavar="FILE",
    help="Find waiting jobs whose payloads do not fit the schemas in FILE; - is standard input.",
)
def types(
    options: GlobalOptions,
    /,
    work_type: str | None,
    is_shown: bool,
    app: Sequence[str],
    checked: IO[str] | None,
) -> int:
    """Show work types and schemas; check waiting jobs.

    Exit status 1 says that --check has found jobs which the new code cannot read.

    Examples:
        types
        types shop.SendReceipt --schema
        types --schema --app shop --json
        types --check -
    """
    if checked is not None:
        if is_shown or app:
            raise click.UsageError("--check takes schemas from FILE; drop --schema and --app")
        return _check(options, _schemas_in(checked), work_type)
    if is_shown or app:
        from txqueue.store.reads.payloads import about_schemas

        rows = _of_app(app) if app else read_database(options, about_schemas, work_type)
        _print(options, [row for row in rows if work_type in (None, row["work_type"])], work_type)
    else:
        _list(options, work_type)
    return 0


def _of_app(modules: Sequence[str]) -> list[dict[str, Any]]:
    from txqueue.model.payload_schema import payload_schema
    from txqueue.model.work_item import known_work_types
    from txqueue.node.application import import_work_items

    import_work_items(list(modules))
    return [
        {"work_type": cls.work_type, "schema": payload_schema(cls)} for cls in known_work_types()
    ]


def _print(
    options: GlobalOptions, rows: Sequence[Mapping[str, Any]], work_type: str | None
) -> None:
    if work_type is not None and not rows:
        raise UnknownWorkType(
            f"no node has published the work type {work_type!r}",
            "start a node that has it, or name the module that defines it: --app MODULE",
        )
    document: Any = {"types": rows}
    # For people, a schema alone is a document that other tools take.
    if work_type is not None and not options.json:
        document = rows[0]["schema"]
    click.echo(json.dumps(document, indent=2))


def _list(options: GlobalOptions, work_type: str | None) -> None:
    from txqueue.store.reads.queue_state import about_work_types

    rows, _ = read_database(options, about_work_types)
    rows = [row for row in rows if work_type in (None, row["work_type"])]
    show_list(options, {"types": rows}, "Work types", _TYPES, "There is none.")


_TYPES: Columns = {
    "type": "work_type",
    "queue": "queue",
    **{f">{state}": amount_of(state) for state in ("waiting", "ready", "assigned", "failed")},
    "nodes": lambda row: ", ".join(named_nodes(row)) or styled("none has it", "bold red"),
}


def _schemas_in(file: IO[str]) -> dict[str, Mapping[str, Any] | None]:
    """Return the schemas in a file by work type."""
    try:
        schemas = {row["work_type"]: row["schema"] for row in json.load(file)["types"]}
        is_right = all(isinstance(schema, dict | None) for schema in schemas.values())
        lost = {name: _lost_parts(schema) for name, schema in schemas.items() if schema}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        is_right = False
    if not is_right:
        raise click.UsageError(
            f"{file.name} has no schemas of work types; make it with"
            " txqueue types --schema --app MODULE --json"
        )
    for name in filter(lost.get, lost):
        what = f"the schema of {name} refers to {', '.join(lost[name])}, which it lacks"
        raise click.UsageError(f"{file.name}: {what}")
    return schemas


def _lost_parts(schema: Mapping[str, Any]) -> list[str]:
    named = _REFERENCE.findall(json.dumps(schema, ensure_ascii=False))
    return sorted({*named} - {*schema.get("$defs", ())})


def _check(
    options: GlobalOptions, schemas: Mapping[str, Mapping[str, Any] | None], work_type: str | None
) -> int:
    from txqueue.policy.readability import Readability
    from txqueue.store.inquiries.reader import Session
    from txqueue.store.reads.payloads import about_waiting_payloads

    found, after = Readability(schemas), 0
    with Session(options.chosen_dsn, options.chosen_schema) as session:
        while rows := session.find(
            about_waiting_payloads(session.schema, list(schemas), after, _PAGE)
        ):
            found.add(row for row in rows if work_type in (None, row["work_type"]))
            after = rows[-1]["job_id"]
    show(options, {"types": found.types()}, lambda: _told(found))
    return _FAULT if found.unreadable else 0


def _told(found: Readability) -> Lines:
    for row in found.types():
        name, jobs = row["work_type"], counted(row["jobs"], "waiting job")
        if not row["is_known"]:
            yield styled(f"{name}: the file lacks it; {jobs} would never run", "bold red")
        elif not row["has_schema"]:
            yield styled(f"{name}: the file has no schema of it; {jobs}, not checked", "yellow")
        elif row["encrypted"]:
            jobs = counted(row["encrypted"], "encrypted job")
            yield styled(f"{name}: {jobs}, not checked", "yellow")
        for misfit in row["misfits"]:
            jobs = counted(misfit["jobs"], "job")
            text = f"{name}: {misfit['what']}: {jobs}, such as {misfit['job_id']}"
            yield styled(text, "bold red")
    if found.unreadable:
        checked = f"{counted(found.unreadable, 'waiting job')} of {found.checked:,} cannot be read."
    elif found.checked:
        checked = f"All of {counted(found.checked, 'waiting job')} can be read."
    else:
        checked = "There is no waiting job to check."
    yield styled(checked)
