"""Makes all checks of an installation, from facts that were read before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from attrs import evolve

from txqueue.policy.diagnosis import nodes, server, tables, work
from txqueue.policy.diagnosis.finding import (
    Check,
    CheckResult,
    Facts,
    Finding,
    Severity,
    Unread,
)
from txqueue.policy.facts.obstacles import MOST_WARNED

TOPICS: Final[Mapping[str, Sequence[Check]]] = {
    "server": server.CHECKS,
    "tables": tables.CHECKS,
    "privileges": tables.PRIVILEGE_CHECKS,
    "horizon": server.HORIZON_CHECKS,
    "nodes": nodes.CHECKS,
    "work": work.CHECKS,
    "files": nodes.FILE_CHECKS,
}
"""The checks of each topic, in the order in which they are shown."""

_ABSENT: Final = Unread("it was not asked for")


def diagnose(facts: Facts) -> list[CheckResult]:
    """Make all checks.

    Args:
        facts: The facts by name; a check whose fact could not be read is not made.

    Returns:
        A result for each check.
    """
    results: dict[str, CheckResult] = {}
    for topic, checks in TOPICS.items():
        for check in checks:
            cause = results[check.unless].findings if check.unless else ()
            results[check.name] = (
                CheckResult(
                    check.name, topic, unchecked=f"what it finds follows from {check.unless}"
                )
                if cause
                else _result(topic, check, facts)
            )
    return list(results.values())


def has_fault(results: Iterable[CheckResult]) -> bool:
    """Tell whether any check found a fault."""
    return any(result.severity is Severity.FAULT for result in results)


def as_document(results: Iterable[CheckResult]) -> dict[str, Any]:
    """Return the results as ``--json`` prints them."""
    return {"checks": [_entry(result) for result in results]}


def _result(topic: str, check: Check, facts: Facts) -> CheckResult:
    fact = facts.get(check.needs, _ABSENT)
    if isinstance(fact, Unread):
        return CheckResult(check.name, topic, unchecked=fact.reason)
    return CheckResult(check.name, topic, _few(check.judge(fact), is_cut=len(fact) == check.most))


def _few(findings: Iterable[Finding], *, is_cut: bool) -> tuple[Finding, ...]:
    """Return the first findings of a check, faults before warnings, and how many more there are."""
    ordered = sorted(findings, key=lambda finding: finding.severity is not Severity.FAULT)
    first, rest = ordered[:MOST_WARNED], ordered[MOST_WARNED:]
    if rest:
        number = f"at least {len(rest):,}" if is_cut else f"{len(rest):,}"
        what = f"and {number} more like those before"
        first.append(evolve(rest[0], what=what, remedy="as for those before"))
    return tuple(first)


def _entry(result: CheckResult) -> dict[str, Any]:
    findings = [
        {
            "severity": str(finding.severity),
            "what": finding.what,
            "why": finding.why,
            "remedy": finding.remedy,
        }
        for finding in result.findings
    ]
    return {
        "check": result.check,
        "topic": result.topic,
        "severity": str(result.severity),
        "unchecked": result.unchecked,
        "findings": findings,
    }
