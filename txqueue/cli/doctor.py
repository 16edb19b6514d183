"""``txqueue doctor``: checks an installation, with the facts of this host."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import click

from txqueue.cli.options import GlobalOptions, command
from txqueue.cli.output import Lines, show, styled
from txqueue.errors import ConfigurationError, TxqueueError
from txqueue.policy.findings.finding import Fact, Facts, Row, Unread

if TYPE_CHECKING:
    from rich.console import RenderableType

    from txqueue.policy.findings.catalogue import CheckResult
    from txqueue.policy.findings.finding import Finding
    from txqueue.system.settings import Settings


# Seconds to wait for object storage.
STORAGE = 5.0


def examine_host(settings: Settings, folder: object, database_facts: Facts) -> dict[str, Fact]:
    """Read all facts of this host.

    Args:
        settings: Name the state directory.
        folder: The folder with the certificates; None if TLS is not used.
        database_facts: The facts that the database has.
    """
    tls = None if folder is None else Path(str(folder))
    return {
        "certificates": _certificates(tls),
        "private_keys": _listed(tls, ".key", _mode),
        "admin_sockets": _sockets(settings),
        "payload_keys": _of(database_facts, "encrypted_types", _payload_keys),
        "archive": _of(database_facts, "archive_location", _archives),
    }


def _listed(folder: Path | None, suffix: str, read: Callable[[Path], Row]) -> Fact:
    """Return the rows of the files of a folder whose names end with a suffix."""
    if folder is None:
        return []
    try:
        return [read(path) for path in sorted(folder.iterdir()) if path.suffix == suffix]
    except OSError as error:
        return Unread(
            f"{error.filename or folder} cannot be read: {error.strerror}; run txqueue doctor with"
            " the account of the node"
        )


def _sockets(settings: Settings) -> Fact:
    """Return the modes of the sockets in the state directory, and of the one that is configured."""
    try:
        folder = settings.state_dir()
    except ConfigurationError as error:
        return Unread(str(error))
    sockets = _listed(folder, ".sock", _mode) if folder.exists() else []
    kind, _, path = str(settings.get("admin", "")).partition(":")
    if isinstance(sockets, Unread) or kind != "unix" or Path(path).parent == folder:
        return sockets
    return [*sockets, *([_mode(Path(path))] if Path(path).exists() else [])]


def _of(database_facts: Facts, name: str, read: Callable[[Sequence[Row]], Fact]) -> Fact:
    """Return what follows from a fact of the database; the same `Unread` if it was not read."""
    fact = database_facts[name]
    return fact if isinstance(fact, Unread) else read(fact)


def _mode(path: Path) -> Row:
    return {"path": str(path), "mode": stat.S_IMODE(path.stat().st_mode)}


def _certificates(folder: Path | None) -> Fact:
    """Return the rows of the certificates, or one that says which package of TLS is missing."""
    if folder is None:
        return []
    from txqueue.wire.tls import require_packages

    try:
        require_packages()
    except ConfigurationError as error:
        return [{"error": error.what, "remedy": error.remedy}]
    return _listed(folder, ".pem", _certificate)


def _certificate(path: Path) -> Row:
    """Return how long a certificate is still valid."""
    from cryptography.x509 import load_pem_x509_certificate

    try:
        until = load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc
    except ValueError:
        return {
            "error": f"{path} is not a certificate in PEM",
            "remedy": "copy it again from where it was issued",
        }
    left = (until - datetime.now(UTC)).total_seconds()
    return {"path": str(path), "seconds_left": left, "error": None}


def _payload_keys(rows: Sequence[Row]) -> Sequence[Row]:
    from txqueue.store.enqueueing.encryption import KEY, check_key, has_key

    work_types = [row["work_type"] for row in rows]
    row = {"work_types": work_types, "has_key": has_key()}
    row |= {"variable": KEY, "error": None, "remedy": ""}
    try:
        check_key()
    except TxqueueError as error:
        row |= {"error": error.what, "remedy": error.remedy}
    return [row]


def _archives(rows: Sequence[Row]) -> Sequence[Row]:
    """Return why archives cannot be used; None for one that can."""
    locations = [row["location"] for row in rows if row["location"] is not None]
    return [
        {
            "location": each,
            "error": _bucket_error(each) if "://" in each else _folder_error(Path(each)),
        }
        for each in locations
    ]


def _folder_error(folder: Path) -> str | None:
    """Look at the folder, or at its nearest parent if it is yet to be created."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir():
        return f"{folder} is not a folder"
    return None if os.access(folder, os.W_OK | os.X_OK) else f"{folder} is not writable"


def _bucket_error(location: str) -> str | None:
    """Look at a bucket in a thread, as the storage may take long to answer."""
    errors: list[str | None] = []
    looking = Thread(target=lambda: errors.append(_find_storage_fault(location)), daemon=True)
    looking.start()
    looking.join(STORAGE)
    return errors[0] if errors else f"it does not answer within {STORAGE:g} s"


def _find_storage_fault(location: str) -> str | None:
    from txqueue.cli.source import with_pyarrow

    try:
        with with_pyarrow():
            from txqueue.archive.storage import open_storage, reachable
        with reachable(location):
            storage = open_storage(location)
            storage.filesystem.get_file_info(storage.root)
    except TxqueueError as error:
        return str(error)
    return None


_COLOURS = {"fault": "bold red", "warning": "yellow", "ok": "green"}
_WIDTH, _DEFAULT = 9, "libpq's default"
_AGE = re.compile(r"(?<=transaction open for )[^;,]+")


@command()
@click.option(
    "--tls-dir",
    metavar="DIR",
    help="The node's folder of certificates (default: TXQUEUE_TLS_DIR).",
)
def doctor(options: GlobalOptions, tls_dir: str | None) -> int:
    """Check an installation: database, roles, nodes, files.

    Exit with 1 on a fault.

    Examples:
        doctor
        doctor --json
    """
    from txqueue.policy.findings.catalogue import as_document, diagnose, has_fault
    from txqueue.store.driver.hosts import location, redacted
    from txqueue.store.driver.shared_errors import source_of
    from txqueue.store.reads.examination.facts import examine

    settings = options.settings
    folder = tls_dir or settings.get("tls_dir")
    if folder is not None and not Path(str(folder)).is_dir():
        raise ConfigurationError(
            f"{folder} is not a folder", "name the one with the certificates by --tls-dir"
        )
    dsn = options.chosen_dsn
    facts = examine(dsn, options.chosen_schema)
    results = diagnose({**facts, **examine_host(settings, folder, facts)})
    place, source = redacted(location(dsn), dsn), source_of(dsn)
    document = {"database": {"location": place, "source": source}, **as_document(results)}
    named = f"database {place or _DEFAULT}, by {source or 'no setting'}"
    show(options, document, lambda: chain([styled(named, "dim")], _lines(results)))
    return int(has_fault(results))


def _lines(results: Sequence[CheckResult]) -> Lines:
    findings = [(result.check, finding) for result in results for finding in result.findings]
    # The faults come first.
    for check, finding in sorted(findings, key=lambda pair: pair[1].severity != "fault"):
        yield from _finding(check, finding)
    yield from _unchecked(results)
    severities = {str(result.severity) for result in results}
    gravest = next(severity for severity in _COLOURS if severity in severities)
    yield styled(_summary(results), _COLOURS[gravest])


def _finding(check: str, finding: Finding) -> Lines:
    severity = str(finding.severity)
    head = styled(severity.ljust(_WIDTH), _COLOURS[severity])
    head.append_text(styled(f"{check}: {finding.what}"))
    yield head
    for title, text in (("why", finding.why), ("fix", finding.remedy)):
        yield _indented(f"{title}: {text}")
    yield ""


def _indented(text: str) -> RenderableType:
    return styled(" " * _WIDTH + text, "dim")


def _unchecked(results: Sequence[CheckResult]) -> Lines:
    """Yield the checks that could not be made, together if the reason is the same."""
    reasons: dict[str, tuple[str, list[str]]] = {}
    for result in results:
        if result.unchecked is not None:
            # One check after the other finds the same transaction, a little older each time.
            same = _AGE.sub("", result.unchecked)
            reasons.setdefault(same, (result.unchecked, []))[1].append(result.check)
    for reason, checks in reasons.values():
        yield styled(f"could not be checked: {', '.join(checks)}", _COLOURS["warning"])
        yield _indented(f"why: {reason}")
        yield ""


def _summary(results: Sequence[CheckResult]) -> str:
    severities = [str(result.severity) for result in results if result.unchecked is None]
    texts = {"ok": "ok", "warning": "with warnings", "fault": "with faults"}
    counts = [f"{severities.count(severity)} {text}" for severity, text in texts.items()]
    counts += [f"{len(results) - len(severities)} not made"] * (len(severities) < len(results))
    return f"{len(results)} checks: {', '.join(counts)}"
