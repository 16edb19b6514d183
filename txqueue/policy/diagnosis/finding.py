"""A check, the facts that it needs, and what it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from attrs import field, frozen

Row = Mapping[str, Any]


class Severity(StrEnum):
    """How grave the result of a check is; the gravest last."""

    OK = "ok"
    WARNING = "warning"
    FAULT = "fault"


@frozen
class Unread:
    """A fact that could not be read.

    Attributes:
        reason: Why not, in one line.
    """

    reason: str


Fact = Sequence[Row] | Unread
Facts = Mapping[str, Fact]


@frozen
class Finding:
    """Something that is wrong.

    Attributes:
        severity: Whether it is a fault or a warning.
        what: What is wrong.
        why: Why it matters.
        remedy: How to fix it.
    """

    severity: Severity
    what: str
    why: str
    remedy: str


def fault(what: str, why: str, remedy: str) -> Finding:
    """Return a fault: something does not work."""
    return Finding(Severity.FAULT, what, why, remedy)


def warning(what: str, why: str, remedy: str) -> Finding:
    """Return a warning: something works badly, or may soon not work."""
    return Finding(Severity.WARNING, what, why, remedy)


@frozen
class Check:
    """One check: the fact that it needs, and the function that judges it.

    Attributes:
        name: The name of the check.
        needs: The name of the fact.
        judge: Returns what is wrong, given the rows of the fact.
        most: The most rows that are read of the fact; None for all.
        unless: The name of an earlier check: what this one finds follows from its findings.
    """

    name: str
    needs: str
    judge: Callable[[Sequence[Row]], Iterable[Finding]]
    most: int | None = None
    unless: str = ""


@frozen
class CheckResult:
    """The result of a check.

    Attributes:
        check: The name of the check.
        topic: The topic of the check.
        findings: What is wrong.
        unchecked: Why the check could not be made; None if it was made.
    """

    check: str
    topic: str
    findings: Sequence[Finding] = field(factory=tuple)
    unchecked: str | None = None

    @property
    def severity(self) -> Severity:
        """The gravest severity of the findings; a check that could not be made is a warning."""
        severities = {finding.severity for finding in self.findings}
        if Severity.FAULT in severities:
            return Severity.FAULT
        return Severity.WARNING if severities or self.unchecked is not None else Severity.OK
