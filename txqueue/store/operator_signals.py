"""Signals of operators: their values are encrypted by the process that has the key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from txqueue.model.results import signal_json
from txqueue.store.enqueueing.signals import encrypted_text
from txqueue.store.inquiries.inquiry import Inquiry, Question
from txqueue.store.inquiries.operations import Operations


async def signal_to_send(
    operations: Operations, schema: str, arguments: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the arguments of the act ``send_signal``, with the value encrypted if it must be.

    Raises:
        InvalidWork: When the value is not JSON.
        KeyUnavailable: When it must be encrypted, and this process has no key.
        Refused: When the job takes no signal.
    """
    text = arguments.get("value")
    if text is None:
        return arguments
    name = arguments["name"]
    value = signal_json(name, text)
    work_type = await operations.find(_about_type(schema, arguments["job_id"], name))
    if work_type is None or value is None:
        return arguments
    return {**arguments, "value": encrypted_text(work_type, value)}


def _about_type(schema: str, job_id: int, name: str) -> Inquiry[str | None]:
    rows = yield Question(f"select {schema}.encrypted_type(%s, %s) as found", (job_id, name))
    found: str | None = rows[0]["found"]
    return found
