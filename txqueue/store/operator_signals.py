"""Signals of operators: checked by the wait for them, encrypted by the process that has the key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from txqueue.model.results import check_signal, signal_json
from txqueue.store.enqueueing.signals import encrypted_text
from txqueue.store.inquiries.inquiry import Inquiry, Question
from txqueue.store.inquiries.operations import Operations
from txqueue.store.reads.steps import about_awaited


async def signal_to_send(
    operations: Operations, schema: str, arguments: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the arguments of the act ``send_signal``, with the value encrypted if it must be.

    Raises:
        InvalidWork: When the value is not JSON, or not what the job awaits.
        KeyUnavailable: When it must be encrypted, and this process has no key.
        Refused: When the job takes no signal.
    """
    job_id, name, text = arguments["job_id"], arguments["name"], arguments.get("value")
    value = None if text is None else signal_json(name, text)
    awaited = await operations.find(about_awaited(schema, job_id))
    check_signal(name, value, awaited.get(name))
    if value is None:
        return arguments
    work_type = await operations.find(_about_type(schema, job_id, name))
    if work_type is None:
        return arguments
    return {**arguments, "value": encrypted_text(work_type, value)}


def _about_type(schema: str, job_id: int, name: str) -> Inquiry[str | None]:
    rows = yield Question(f"select {schema}.encrypted_type(%s, %s) as found", (job_id, name))
    found: str | None = rows[0]["found"]
    return found
