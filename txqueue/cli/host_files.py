"""Reads the facts of this host for ``txqueue doctor``: files, the archive, the keys of payloads."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from txqueue.errors import ConfigurationError, TxqueueError
from txqueue.policy.diagnosis.finding import Fact, Facts, Row, Unread

if TYPE_CHECKING:
    from txqueue.system.settings import Settings

__all__ = ["examine_host"]

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
    locations = [row["location"] for row in rows if row["location"] is not None]
    return [{"location": location, "error": _storage_error(location)} for location in locations]


def _storage_error(location: str) -> str | None:
    """Return why an archive cannot be used; None if it can."""
    return _bucket_error(location) if "://" in location else _folder_error(Path(location))


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
    from txqueue.cli.archived_jobs import with_pyarrow

    try:
        with with_pyarrow():
            from txqueue.archive.storage import open_storage, reachable
        with reachable(location):
            storage = open_storage(location)
            storage.filesystem.get_file_info(storage.root)
    except TxqueueError as error:
        return str(error)
    return None
