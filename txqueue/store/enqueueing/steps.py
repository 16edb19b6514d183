"""The calls of the stored functions for steps of running jobs, and for signals."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from attrs import astuple, frozen

from txqueue.model.job import Token
from txqueue.store.driver.connection import Statement

_LOAD: Final = """
    select name, kind, result, error, is_ended, seconds, child, child_state, child_type,
        child_result, child_error from {schema}.load_steps(%s)"""
_WRITE_MANY: Final = "select place, value from {schema}.write_steps(%s, cast(%s as jsonb))"
_WRITE: Final = """
    select {schema}.write_step(
        its_incarnation => %s, its_assignment => %s, its_job_id => %s, its_name => %s,
        its_result => cast(%s as jsonb), its_child => %s, its_lane => %s)"""


@frozen
class StepRun:
    """The run of a job that has steps.

    Attributes:
        token: Its fencing token.
        job_id: The number of the job.
        lane: The lane that had the row of the job when it was assigned.
    """

    token: Token
    job_id: int
    lane: int


@frozen
class StepWrite:
    """A step to be written for a running job.

    Attributes:
        run: The run that has done it.
        name: The name of the step.
        kind: ``step``, ``cursor``, ``call``, or ``signal`` to take one that is there.
        result: The result as JSON text; None for none.
        error: Why a call has no result.
        signal: The name of the signal.
        is_over: Whether the time to wait for the signal is over.
        child_type: The work type that a called job has at its end.
    """

    run: StepRun
    name: str
    kind: str
    result: str | None = None
    error: str | None = None
    signal: str | None = None
    is_over: bool = False
    child_type: str | None = None

    @property
    def text(self) -> str:
        """The step as `write_steps` takes it."""
        about: dict[str, Any] = {
            "job_id": self.run.job_id,
            "assignment": self.run.token.assignment,
            "name": self.name,
            "kind": self.kind,
        }
        if self.error is not None:
            about["error"] = self.error
        if self.child_type is not None:
            about["child_type"] = self.child_type
        if self.signal is not None:
            about |= {"signal": self.signal, "is_over": self.is_over}
        result = "" if self.result is None else f', "result": {self.result}'
        return f"{json.dumps(about)[:-1]}{result}}}"


def loaded(schema: str, job_id: int) -> Statement:
    """Return the statement that reads the steps of a job, a row for each `Memo`."""
    return _LOAD.format(schema=schema), (job_id,)


def steps_written(schema: str, incarnation: int, steps: Iterable[StepWrite]) -> Statement:
    """Return the statement that writes steps of runs of one incarnation."""
    text = f"[{','.join(step.text for step in steps)}]"
    return _WRITE_MANY.format(schema=schema), (incarnation, text)


def step_written(
    schema: str, run: StepRun, name: str, *, result: str | None = None, child: int | None = None
) -> Statement:
    """Return the last statement of a transaction that is a step, or enqueues a call's child."""
    parameters = (*astuple(run.token), run.job_id, name, result, child, run.lane)
    return _WRITE.format(schema=schema), parameters
