"""``txqueue doctor``: checks an installation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from txqueue.cli.options import Command, GlobalOptions
from txqueue.cli.output import Lines, show, styled
from txqueue.errors import ConfigurationError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from txqueue.policy.diagnosis.finding import CheckResult, Finding

__all__ = ["doctor"]

_COLOURS = {"fault": "bold red", "warning": "yellow", "ok": "green"}
_WIDTH = 9
_AGE = re.compile(r"(?<=transaction open for )[^;,]+")


@click.command(cls=Command, short_help="Check an installation: database, roles, nodes, files.")
@click.option(
    "--tls-dir",
    metavar="DIR",
    help="The node's folder of certificates (default: TXQUEUE_TLS_DIR).",
)
@click.pass_obj
def doctor(options: GlobalOptions, tls_dir: str | None) -> int:
    """Check the database, the roles, the nodes and this host's files; exit with 1 on a fault."""
    from txqueue.cli.host_files import examine_host
    from txqueue.policy.diagnosis.checkup import as_document, diagnose, has_fault
    from txqueue.store.reads.examination.facts import examine

    settings = options.settings
    folder = tls_dir or settings.get("tls_dir")
    if folder is not None and not Path(str(folder)).is_dir():
        raise ConfigurationError(
            f"{folder} is not a folder", "name the one with the certificates by --tls-dir"
        )
    facts = examine(options.chosen_dsn, options.chosen_schema)
    results = diagnose({**facts, **examine_host(settings, folder, facts)})
    show(options, as_document(results), lambda: _lines(results))
    return int(has_fault(results))


def _lines(results: Sequence[CheckResult]) -> Lines:
    findings = [(result.check, finding) for result in results for finding in result.findings]
    # The faults come first.
    for check, finding in sorted(findings, key=lambda pair: pair[1].severity != "fault"):
        yield from _finding(check, finding)
    yield from _unchecked(results)
    yield styled(_summary(results), _COLOURS[_gravest(results)])


def _finding(check: str, finding: Finding) -> Lines:
    head = styled(finding.severity.ljust(_WIDTH), _COLOURS[finding.severity])
    head.append_text(styled(f"{check}: {finding.what}"))
    yield head
    for title, text in (("why", finding.why), ("fix", finding.remedy)):
        yield _indented(f"{title}: {text}")
    yield ""


def _indented(text: str) -> RenderableType:
    return styled(" " * _WIDTH + text, "dim")


def _unchecked(results: Sequence[CheckResult]) -> Lines:
    """Yield the checks that could not be made, together if the reason is the same."""
    reasons: dict[str, tuple[str, list[str]]] = {}
    for result in results:
        if result.unchecked is not None:
            # One check after the other finds the same transaction, a little older each time.
            same = _AGE.sub("", result.unchecked)
            reasons.setdefault(same, (result.unchecked, []))[1].append(result.check)
    for reason, checks in reasons.values():
        yield styled(f"could not be checked: {', '.join(checks)}", _COLOURS["warning"])
        yield _indented(f"why: {reason}")
        yield ""


def _summary(results: Sequence[CheckResult]) -> str:
    severities = [str(result.severity) for result in results if result.unchecked is None]
    texts = {"ok": "ok", "warning": "with warnings", "fault": "with faults"}
    counts = [f"{severities.count(severity)} {text}" for severity, text in texts.items()]
    counts += [f"{len(results) - len(severities)} not made"] * (len(severities) < len(results))
    return f"{len(results)} checks: {', '.join(counts)}"


def _gravest(results: Sequence[CheckResult]) -> str:
    severities = {str(result.severity) for result in results}
    return next(severity for severity in _COLOURS if severity in severities)
