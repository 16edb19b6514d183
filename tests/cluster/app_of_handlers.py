"""An application that sets up the standard library's logging when it is imported."""

import logging
import os
from logging.config import dictConfig
from pathlib import Path
from typing import Any

from attrs import define

from txqueue import Retry, WorkItem

# In a node only: it would change the logging of the tests.
if "TXQUEUE_TEST_NODE" in os.environ:
    dictConfig(
        {
            "version": 1,
            "handlers": {"console": {"class": "logging.StreamHandler"}},
            "root": {"level": "INFO", "handlers": ["console"]},
        }
    )
    # Records that this process has imported the application.
    Path(f"imported-{os.getpid()}").touch()


@define
class Handling(WorkItem):
    """Logs by the application's handler, and fails."""

    retry = Retry(attempts=1)

    def perform(self, job: Any) -> None:
        """Log and fail."""
        logging.getLogger("shop").info("handled %d", job.id)
        raise ValueError("no money")
