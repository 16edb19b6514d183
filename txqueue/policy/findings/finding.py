"""An entry of the catalogue, the facts that it needs, and what it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from attrs import evolve, field, frozen

Row = Mapping[str, Any]


class Severity(StrEnum):
    """How grave the result of a check is; the gravest last."""

    OK = "ok"
    WARNING = "warning"
    FAULT = "fault"


WARNING, FAULT = Severity.WARNING, Severity.FAULT


@frozen
class Unread:
    """A fact that could not be read.

    Attributes:
        reason: Why not, in one line.
    """

    reason: str


Fact = Sequence[Row] | Unread
Facts = Mapping[str, Any]
"""Facts by name, most of them rows; `Unread` for one that could not be read."""


@frozen
class Finding:
    """Something that is wrong.

    Attributes:
        what: What is wrong.
        why: Why it matters.
        remedy: How to fix it.
        subject: The name of what it is about.
        kind: The kind of the warning about it, if not that of its check.
        severity: Whether it is a fault or a warning, if not as its check says.
        act: The act of operators that ends it, and its arguments; empty if none does.
    """

    what: str
    why: str
    remedy: str
    subject: str = ""
    kind: str = ""
    severity: Severity | None = None
    act: Mapping[str, str] = field(factory=dict)


Find = Callable[..., Iterable[Finding]]


@frozen
class Check:
    """An entry of the catalogue.

    Attributes:
        name: The name of the check.
        needs: The names of the facts, separated by spaces.
        find: Returns what is wrong, given these facts.
        severity: `FAULT` if something does not work; `WARNING` if it works badly, or may soon not
            work.
        kind: The name by which programs know the warning of status and the dashboard; empty if
            these do not show what is found.
        unless: The name of an earlier check: what this one finds follows from its findings.
        most: The most rows that are read of its first fact; None for all.
    """

    name: str
    needs: str
    find: Find
    severity: Severity
    kind: str = ""
    unless: str = ""
    most: int | None = None

    def findings(self, *facts: Any) -> list[Finding]:
        """Return what is wrong, faults before warnings."""
        found = [
            evolve(each, kind=each.kind or self.kind, severity=each.severity or self.severity)
            for each in self.find(*facts)
        ]
        return sorted(found, key=is_warning)


def is_warning(finding: Finding) -> bool:
    """Tell whether a finding is no fault: the key by which faults come first."""
    return finding.severity is not FAULT


@frozen
class Topic:
    """The checks of one topic, in the order in which they are shown."""

    checks: list[Check] = field(factory=list)

    def check(
        self, name: str, needs: str, severity: Severity, **options: Any
    ) -> Callable[[Find], Find]:
        """Add the decorated function, which looks at all rows of its facts; see `Check`."""

        def add(find: Find) -> Find:
            self.checks.append(Check(name, needs, find, severity, **options))
            return find

        return add

    def rows(
        self, name: str, needs: str, severity: Severity, **options: Any
    ) -> Callable[[Find], Find]:
        """Add the decorated function, which looks at one row of its fact; see `Check`."""

        def add(find: Find) -> Find:
            self.check(name, needs, severity, **options)(
                lambda rows: (finding for row in rows for finding in find(row))
            )
            return find

        return add
