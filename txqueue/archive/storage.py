"""The storage of archived days: a folder, or a bucket of S3-compatible storage."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from attrs import frozen
from pyarrow import fs

from txqueue.errors import ArchiveUnavailable, ConfigurationError

# How many rows of a file are read at a time.
_AT_ONCE = 8192


@frozen
class ArchiveStorage:
    """The storage of archived days, one file ``STATE/DAY.parquet`` each.

    Attributes:
        location: The location as configured: a folder, or ``s3://bucket/prefix``.
        filesystem: The pyarrow file system.
        root: The path, in that file system, of the folder that has the files.
    """

    location: str
    filesystem: Any
    root: str

    def path(self, state: str, day: date) -> str:
        """Return the path of a day's file."""
        return f"{self.root}/{state}/{day.isoformat()}.parquet"

    @contextmanager
    def writing(self, path: str, schema: pa.Schema) -> Iterator[Any]:
        """Open a file for writing during the block; it gets its name only once it is complete.

        Object storage never shows a partial object; a local file has a hidden name until then.
        """
        unfinished = path
        if not self._is_remote:
            folder, _, name = path.rpartition("/")
            unfinished = f"{folder}/.{name}.partial"
            self.filesystem.create_dir(folder, recursive=True)
            _make_private(Path(unfinished))
        try:
            with (
                self.filesystem.open_output_stream(unfinished) as sink,
                pq.ParquetWriter(sink, schema, compression="zstd") as writer,
            ):
                yield writer
        except BaseException:
            # A partial file would break programs that read all files of a folder.
            with suppress(OSError):
                self.filesystem.delete_file(unfinished)
            raise
        if not self._is_remote:
            _keep(Path(unfinished), Path(path))

    def batches(self, path: str) -> Iterator[pa.RecordBatch]:
        """Read a file, some rows at a time."""
        with self.filesystem.open_input_file(path) as source:
            yield from pq.ParquetFile(source).iter_batches(_AT_ONCE)

    @property
    def _is_remote(self) -> bool:
        return bool(self.filesystem.type_name != "local")


def open_storage(location: str) -> ArchiveStorage:
    """Open the storage of a location.

    Args:
        location: A folder, or ``s3://bucket/prefix``, perhaps with ``?endpoint_override=URL``
            and ``&region=NAME``. S3 keys are read from where AWS's own programs look for them.

    Raises:
        ConfigurationError: When the location is not valid, or contains S3 keys.
    """
    if "://" not in location:
        path = Path(location).expanduser().absolute()
        return ArchiveStorage(str(path), fs.LocalFileSystem(), str(path))
    if not location.startswith("s3://"):
        raise _no_place(location, "it is neither a folder nor of s3")
    if "@" in location.partition("?")[0]:
        raise ConfigurationError(
            "the archive's location has keys in it, which others could read",
            "put them into AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile",
        )
    try:
        filesystem, root = fs.FileSystem.from_uri(location)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _no_place(location, _said(error)) from None
    return ArchiveStorage(location, filesystem, root.rstrip("/"))


@contextmanager
def reachable(location: str) -> Iterator[None]:
    """Convert errors of reading and writing in the block into txqueue's, with the location."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise ArchiveUnavailable(
            f"the archive at {location} cannot be used: {_said(error)}",
            "check that it can be reached, and its keys",
        ) from None


def _no_place(location: str, reason: str) -> ConfigurationError:
    return ConfigurationError(
        f"{location} cannot be used for an archive: {reason}", "give a folder or s3://bucket/prefix"
    )


def _said(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]


def _make_private(path: Path) -> None:
    """Create a file that only this account can read, as it will have payloads, even redacted ones.

    An old file of that name is deleted.
    """
    path.unlink(missing_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def _keep(unfinished: Path, path: Path) -> None:
    """Sync a file to disk, and then give it its name."""
    _sync(unfinished)
    unfinished.replace(path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
