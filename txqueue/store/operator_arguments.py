"""The arguments of acts: signals, checked by the wait for them and encrypted by the process that
has the key, and payloads, checked by the schemas that nodes have published.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from txqueue.errors import InvalidWork
from txqueue.model.results import check_signal, signal_json
from txqueue.model.schema_check import find_misfit
from txqueue.model.storable import check_payload
from txqueue.store.enqueueing.portable_calls import encrypted_text
from txqueue.store.inquiries.inquiry import Inquiry, Question
from txqueue.store.inquiries.operations import Operations
from txqueue.store.reads.steps import about_awaited

# The arguments that are payloads, by their acts.
_PAYLOADS: Final = {"edit": "to", "repeat": "payload"}


async def prepared(
    operations: Operations, schema: str, act: str, arguments: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the arguments of an act as its stored function takes them.

    Raises:
        InvalidWork: When a payload is none, or not one of the jobs' types; else see
            `signal_to_send`.
    """
    if act == "send_signal":
        return await signal_to_send(operations, schema, arguments)
    if (text := arguments.get(_PAYLOADS.get(act, ""))) is not None:
        job_ids = arguments.get("ids") or [arguments["job_id"]]
        await operations.find(payload_fits(schema, text, job_ids))
    return arguments


def payload_fits(
    schema: str, text: str, job_ids: Sequence[int], work_type: str | None = None
) -> Inquiry[None]:
    """Check a payload by the schemas of some jobs' types, unless their payloads are encrypted.

    Args:
        schema: The name of the schema of tables.
        text: The payload in JSON.
        job_ids: The numbers of the jobs.
        work_type: The type of a job that is archived.

    Raises:
        InvalidWork: When it is no payload, or not one of the types.
    """
    payload = json.loads(check_payload(text))
    rows = yield Question(
        f"select work_type, schema from {schema}.work_type where schema is not null"
        " and not policy ? 'encrypted' and (work_type = %s or work_type in"
        f" (select work_type from {schema}.job where job_id = any(%s)))",
        (work_type, list(job_ids)),
    )
    for row in rows:
        if what := find_misfit(row["schema"], payload):
            raise InvalidWork(
                f"the payload does not fit {row['work_type']}: {what}",
                f"see: txqueue types {row['work_type']} --schema",
            )


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
