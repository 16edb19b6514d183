"""Tests of logs begin outside of runs."""

import pytest

from txqueue.model.run_log import RUNNING


@pytest.fixture(autouse=True)
def outside_of_runs() -> None:
    """Forget a run that an earlier test has left: a timer of asyncio's has the context of its job."""
    RUNNING.set(None)
