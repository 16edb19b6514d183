"""Reads files with secrets, which other accounts must not read or change."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from txqueue.errors import ConfigurationError

__all__ = ["read_private"]


def read_private(path: Path, subject: str, option: str) -> str:
    """Return the text of a file with secrets.

    Args:
        path: The file.
        subject: What it has, for an error.
        option: The option that names it, for an error.

    Raises:
        ConfigurationError: When the file cannot be read, or others may read or change it.
    """
    try:
        with path.open(encoding="utf-8") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"cannot read {subject} in {path}: {error}", f"check the path: {option} FILE"
        ) from None
    if mode & (stat.S_IWGRP | stat.S_IRWXO):
        raise ConfigurationError(
            f"other accounts can read or change {path}", f"run: chmod 600 {path}"
        )
    return text
