"""Encrypts payloads and results at rest, with keys that only clients and workers have; and what a
caller that waits for a job gets.

The stored form is ``{"encrypted": TOKEN}`` with a Fernet token, which cannot be read or made
without a key. The token contains the work type and whether it is a payload or a result, so that it
is refused in another place.
"""

from __future__ import annotations

import json
import os
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from txqueue.errors import (
    ConfigurationError,
    DatabaseUnavailable,
    InvalidWork,
    JobFailed,
    JobNotFound,
    KeyUnavailable,
    UnknownWorkType,
    WaitTimeout,
)
from txqueue.model.job import Job, State
from txqueue.model.work_item import find_work_type

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet


KEY = "TXQUEUE_PAYLOAD_KEY"
_MARK = "encrypted"
_REMEDY = (
    f"set {KEY} to the key, or to several joined by commas: the first encrypts, all decrypt;"
    " the how-to on encrypted payloads makes one"
)


def encrypted(work_type: str, part: str, value: Any) -> dict[str, str]:
    """Encrypt a value that fits JSON.

    Args:
        work_type: The job's work type.
        part: ``payload`` or ``result``.
        value: The value to encrypt.

    Returns:
        The value to store instead.

    Raises:
        InvalidWork: When the value does not fit JSON.
        KeyUnavailable: When this process has no key.
        ConfigurationError: When the key is not valid.
    """
    ring = _ring()
    try:
        text = json.dumps([work_type, part, value], allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise InvalidWork(
            f"the {part} of {work_type} is not JSON: {type(error).__name__}",
            "use plain data, dates or attrs classes",
        ) from None
    return {_MARK: ring.encrypt(text.encode()).decode()}


def decrypted(work_type: str, part: str, stored: Any) -> Any:
    """Decrypt a result of `encrypted`.

    Raises:
        InvalidWork: When the value is not encrypted, or was encrypted for another work type or as
            the other of payload and result.
        KeyUnavailable: When no key of this process decrypts the value.
    """
    if not is_encrypted(stored):
        raise InvalidWork(
            f"the {part} of {work_type} is in clear, but its class is encrypted",
            f"cancel the job, and enqueue it again where {KEY} is set",
        )
    if not _is_token(stored[_MARK]):
        raise InvalidWork(
            f"the {part} of {work_type} is in no form that encryption makes",
            "find out which program put it there; no key can decrypt it",
        )
    ring = _ring()
    from cryptography.fernet import InvalidToken

    try:
        text = ring.decrypt(stored[_MARK].encode())
    except InvalidToken:
        raise KeyUnavailable(
            f"no key of this process decrypts the {part} of {work_type}", _REMEDY
        ) from None
    stored_type, stored_part, value = json.loads(text)
    if (stored_type, stored_part) != (work_type, part):
        raise InvalidWork(
            f"the {part} of {work_type} was encrypted as the {stored_part} of {stored_type}",
            "find out which program put it there",
        )
    return value


def decrypted_result(work_type: str, stored: Any) -> Any:
    """Return a job's result decrypted; the result of an unknown work type is returned as stored.

    Raises:
        KeyUnavailable: When no key of this process decrypts the result.
    """
    try:
        cls = find_work_type(work_type)
    except UnknownWorkType:
        return stored
    return (
        decrypted(work_type, "result", stored) if cls.encrypted and is_encrypted(stored) else stored
    )


def is_encrypted(stored: Any) -> bool:
    """Tell whether a value has the form of a result of `encrypted`."""
    return isinstance(stored, Mapping) and stored.keys() == {_MARK} and type(stored[_MARK]) is str


def _is_token(text: str) -> bool:
    """Tell whether a text has the form of a Fernet token: version, time, blocks and signature."""
    try:
        data = urlsafe_b64decode(text)
    except ValueError:
        return False
    return data[:1] == b"\x80" and len(data) >= 73 and (len(data) - 57) % 16 == 0


def has_key() -> bool:
    """Tell whether this process has an encryption key."""
    return bool(os.environ.get(KEY))


def check_key() -> None:
    """Check, when a process starts, that its encryption key is usable, if it has one.

    Raises:
        ConfigurationError: When the key is not usable.
        KeyUnavailable: When the package `cryptography` is missing.
    """
    if has_key():
        _ring()


def _ring() -> MultiFernet:
    text = os.environ.get(KEY, "")
    if not text:
        raise KeyUnavailable(f"payloads of this type are encrypted, and {KEY} is not set", _REMEDY)
    return _ring_of(text)


@lru_cache(maxsize=4)
def _ring_of(text: str) -> MultiFernet:
    try:
        from cryptography.fernet import Fernet, MultiFernet
    except ImportError:
        raise KeyUnavailable(
            "encrypted payloads need the package cryptography", "pip install 'txqueue[crypto]'"
        ) from None
    try:
        return MultiFernet([Fernet(key.strip()) for key in text.split(",") if key.strip()])
    except ValueError:
        # The library's error might show the key.
        raise ConfigurationError(
            f"{KEY} is not a key: each is 32 bytes in URL-safe base64", _REMEDY
        ) from None


def result_of(job: Job) -> object:
    """Return the result of an ended job, decrypted.

    Raises:
        JobFailed: When the job failed or was cancelled.
        KeyUnavailable: When no key of this process decrypts the result.
    """
    if job.state is not State.DONE:
        raise JobFailed(
            f"job {job.id} is {job.state}: {(job.error or 'no reason given').splitlines()[0]}"
        )
    return decrypted_result(job.work_type, job.result)


def missing(job_id: int, *, is_in_transaction: bool) -> JobNotFound:
    """Return the error for a job that is not there.

    Args:
        job_id: The job's number.
        is_in_transaction: Whether the caller is inside a transaction of a queue.
    """
    if is_in_transaction:
        return JobNotFound(
            f"job {job_id} is not there, or is of a transaction that has not committed",
            "a job begins after the commit: read it or wait for it after queue.transaction()",
        )
    return JobNotFound(f"there is no job {job_id}", "check the number; old history is dropped")


def not_in_time(job_id: int, timeout: float) -> WaitTimeout:
    """Return the error for a job that did not end in time."""
    return WaitTimeout(
        f"job {job_id} did not end within {timeout:g} s",
        f"wait longer, or see why: txqueue explain {job_id}",
    )


def closed_before(job_id: int) -> DatabaseUnavailable:
    """Return the error for a caller that waited when the queue was closed."""
    return DatabaseUnavailable(
        f"the queue was closed before job {job_id} ended", "close the queue after the wait"
    )
