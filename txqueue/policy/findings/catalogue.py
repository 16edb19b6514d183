"""All findings by topic, and what the tools show of them: ``txqueue doctor`` makes every check,
``txqueue status`` and the dashboard those whose facts they have read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from attrs import evolve, field, frozen

from txqueue.policy.findings import nodes, schema, server, work
from txqueue.policy.findings.finding import Check, Facts, Finding, Severity, Unread, is_warning

TOPICS: Final[Mapping[str, Sequence[Check]]] = {
    "server": server.SERVER.checks,
    "tables": schema.TABLES.checks,
    "privileges": schema.PRIVILEGES.checks,
    "horizon": server.HORIZON.checks,
    "nodes": nodes.NODES.checks,
    "work": [*work.WORK.checks, *nodes.HOST.checks],
    "files": nodes.FILES.checks,
}
"""The checks of each topic, in the order in which they are shown."""

MOST_WARNED: Final = 20
"""How many findings of a check are shown; one more says how many others there are."""

_UNKNOWN: Final = Unread("this fact was not asked for")
_WARNED: Final = (*nodes.NODES.checks, *work.WORK.checks, *work.STATUS.checks)


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
        if any(finding.severity is Severity.FAULT for finding in self.findings):
            return Severity.FAULT
        return Severity.WARNING if self.findings or self.unchecked is not None else Severity.OK


def diagnose(facts: Facts) -> list[CheckResult]:
    """Make all checks.

    Args:
        facts: The facts by name; a check is not made if one of its facts is missing or unread.

    Returns:
        A result for each check.
    """
    results: dict[str, CheckResult] = {}
    for topic, checks in TOPICS.items():
        for check in checks:
            results[check.name] = _result(topic, check, facts, results)
    return list(results.values())


def warnings(facts: Facts) -> list[dict[str, Any]]:
    """Return what status and the dashboard show: what the checks find whose facts are there.

    Returns:
        Dictionaries with ``kind, subject, what, remedy, act``; the faults first.
    """
    results: dict[str, CheckResult] = {}
    for check in _WARNED:
        if facts.keys() >= set(check.needs.split()):
            results[check.name] = _result("", check, facts, results)
    found = [each for result in results.values() for each in result.findings if each.kind]
    return [
        _told(finding, "kind", "subject", "what", "remedy", "act")
        for finding in sorted(found, key=is_warning)
    ]


def has_fault(results: Iterable[CheckResult]) -> bool:
    """Tell whether any check found a fault."""
    return any(result.severity is Severity.FAULT for result in results)


def as_document(results: Iterable[CheckResult]) -> dict[str, Any]:
    """Return the results as ``--json`` prints them."""
    return {"checks": [_entry(result) for result in results]}


def _result(
    topic: str, check: Check, facts: Facts, earlier: Mapping[str, CheckResult]
) -> CheckResult:
    if check.unless in earlier and earlier[check.unless].findings:
        reason = f"what it finds follows from {check.unless}"
        return CheckResult(check.name, topic, unchecked=reason)
    needed = [facts.get(name, _UNKNOWN) for name in check.needs.split()]
    for fact in needed:
        if isinstance(fact, Unread):
            return CheckResult(check.name, topic, unchecked=fact.reason)
    is_cut = check.most is not None and len(needed[0]) >= check.most
    return CheckResult(check.name, topic, _few(check.findings(*needed), is_cut=is_cut))


def _few(found: Sequence[Finding], *, is_cut: bool) -> Sequence[Finding]:
    """Return the first findings of a check, and how many more there are."""
    first, rest = found[:MOST_WARNED], found[MOST_WARNED:]
    if not rest:
        return first
    number = f"at least {len(rest):,}" if is_cut else f"{len(rest):,}"
    what, remedy = f"and {number} more like those before", "as for those before"
    return [*first, evolve(rest[0], what=what, remedy=remedy, subject="", act={})]


def _told(finding: Finding, *names: str) -> dict[str, Any]:
    return {name: getattr(finding, name) for name in names}


def _entry(result: CheckResult) -> dict[str, Any]:
    return {
        "check": result.check,
        "topic": result.topic,
        "severity": str(result.severity),
        "unchecked": result.unchecked,
        "findings": [
            _told(finding, "severity", "what", "why", "remedy") for finding in result.findings
        ],
    }
