"""For an empty list: which of its filters names what does not exist."""

from __future__ import annotations

from collections.abc import Mapping

from txqueue.cli.options import JOB_COLUMNS, GlobalOptions
from txqueue.cli.output import note
from txqueue.cli.source import read_database
from txqueue.errors import TxqueueError

__all__ = ["note_unknown_names"]


def note_unknown_names(options: GlobalOptions, filters: Mapping[str, object]) -> None:
    """Note the names among some filters that do not exist, with those that do, for people."""
    names = {kind: filters.get(kind) for kind in (*JOB_COLUMNS, "node")}
    if options.json:
        return
    try:
        for kind, name in names.items():
            if isinstance(name, str) and (text := _unknown(options, kind, name)) is not None:
                note(options, text)
    except TxqueueError:
        # A node may have answered while the database does not: what it said stands.
        return


def _unknown(options: GlobalOptions, kind: str, name: str) -> str | None:
    from txqueue.policy.facts.unknown_names import unknown_name
    from txqueue.store.reads.known_names import MOST_KNOWN, about_known_names

    known = read_database(options, lambda schema: about_known_names(schema, kind, name))
    return unknown_name(kind, name, known, is_all=len(known) < MOST_KNOWN)
