"""The names of spans and their attributes: OpenTelemetry's for messaging, and txqueue's own.

Source: Semantic conventions for messaging spans,
https://opentelemetry.io/docs/specs/semconv/messaging/messaging-spans/
"""

from __future__ import annotations

SCOPE = "txqueue"
SEND, PROCESS = "send", "process"

SYSTEM, SYSTEM_NAME = "messaging.system", "txqueue"
OPERATION, OPERATION_TYPE = "messaging.operation.name", "messaging.operation.type"
QUEUE = "messaging.destination.name"
JOB_ID = "messaging.message.id"
BATCH_SIZE = "messaging.batch.message_count"
ERROR_TYPE = "error.type"

WORK_TYPE, ATTEMPT, OUTCOME = "txqueue.work_type", "txqueue.attempt", "txqueue.outcome"
WORK_TYPES, SEVERAL = "txqueue.work_types", "several work types"


def span_name(operation: str, work_type: str) -> str:
    """Return the name of a span, such as ``process shop.SendReceipt``."""
    return f"{operation} {work_type}"
