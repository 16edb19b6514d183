"""A shop that reports to Sentry; what would be sent is appended to the file SENTRY_KEPT."""

import json
import os
from pathlib import Path
from typing import Any

import sentry_sdk
from attrs import define

import txqueue.sentry
from txqueue import Retry, Runtime, WorkItem

# In a node, records that this process has imported the application.
if "TXQUEUE_TEST_NODE" in os.environ:
    Path(f"imported-{os.getpid()}").touch()
_FILE = Path(os.environ["SENTRY_KEPT"])


def _keep(_: Any, envelope: Any) -> None:
    with _FILE.open("a") as file:
        for item in envelope.items:
            print(json.dumps([item.type, item.payload.json, os.getpid()]), file=file)


_transport: Any = type("Kept", (sentry_sdk.Transport,), {"capture_envelope": _keep})
sentry_sdk.init(dsn="http://key@localhost/1", transport=_transport, traces_sample_rate=1.0)
txqueue.sentry.install()


@define
class Charge(WorkItem):
    """Fails in a thread, with its payload in a variable."""

    work_type = "shop.Charge"
    runtime = Runtime.THREAD
    retry = Retry(attempts=2, first=0.1)

    card: str

    def perform(self, job: Any) -> None:
        """Fail."""
        card = self.card
        sentry_sdk.add_breadcrumb(message=f"charges, attempt {job.attempt}")
        if card:
            raise ConnectionError("the bank is away")
