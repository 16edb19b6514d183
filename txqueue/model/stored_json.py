"""JSON as the database has it: any role may have written it."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["read_json"]


def read_json(text: str | None) -> Any:
    """Parse JSON text; return the text itself where it is too long or too deep for Python."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
