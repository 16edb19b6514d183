"""The house: each floor imports only from below, files are small and functions short.

The rules are the tables at the top; what follows only reads imports and compares.
"""

import ast
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from attrs import frozen

ROOT: Final = Path(__file__).resolve().parents[2]

PACKAGES: Final = {
    "txqueue.errors": 0,
    "txqueue.system": 1,
    "txqueue.model": 2,
    "txqueue.policy": 3,
    "txqueue.tracing": 4,
    "txqueue.store": 5,
    "txqueue.wire": 5,
    "txqueue.logs": 5,
    "txqueue.node": 6,
    "txqueue.worker": 6,
    "txqueue.client": 6,
}
"""The floor of each package; packages of one floor do not import each other."""

EDGES: Final = 7
"""The floor of all the rest."""

PURE: Final = range(4)
"""The floors without a reactor and without a driver."""

PURE_MAY_IMPORT: Final = frozenset(
    {*sys.stdlib_module_names, "attr", "attrs", "cattr", "cattrs", "cronsim"}
)
"""What the pure floors may import besides txqueue: nothing of Twisted's, no driver."""

ONLY_IN: Final = {
    "psycopg2": "txqueue.store",
    "txpostgres": "txqueue.store",
    "pyarrow": "txqueue.archive",
    "jinja2": "txqueue.web",
    "prometheus_client": "txqueue.metrics",
    "opentelemetry": "txqueue.tracing",
    "twisted.protocols.amp": "txqueue.wire",
}
"""What only one package may know."""

SERVICE_PACKAGES: Final = ("txqueue.node", "txqueue.worker")
"""Their modules are services, which do not import each other."""

ASSEMBLERS: Final = frozenset(
    {
        *("__init__", "__main__", "description", "figures", "node", "service", "services"),
        "shared_state",
        *("process", "template"),
    }
)
"""The modules of those packages that put the services together, or ask all of them."""

PARTS: Final = {
    "txqueue.node.intake": "a rule that services share: an assignment is taken once",
    "txqueue.node.periodic": "what the services are made of: a wait, and a step done again",
    "txqueue.node.host": "facts: whether a process of this host has ended",
    "txqueue.node.peer": "one other master as this one sees it; the mesh is the service",
    "txqueue.node.heavy_jobs": "a decision that the claimer asks for, with a memory of its own",
    "txqueue.node.collaborators": "protocols: what services ask of each other",
    "txqueue.node.database_notices": "state that services share: what notifications have said",
    "txqueue.node.database_life": "what heartbeats ask: whether the database has lost writes",
    "txqueue.node.deduplication": "state that services share: which assignments have arrived",
    "txqueue.node.inbox": "state that services share: assignments named by messages",
    "txqueue.node.lease": "state that services share: the right to the node's jobs",
    "txqueue.node.lease_keeper": "what follows when the lease changes; heartbeats are the service",
    "txqueue.node.lifecycle": "state that services share: whether the node drains or ends",
    "txqueue.node.listening_port": "one port; the services that own it open and close it",
    "txqueue.node.meters": "state that services share: what they count and time",
    "txqueue.node.own_report": "values: the node's report to its peers",
    "txqueue.node.peer_table": "state that services share: the peers that are known",
    "txqueue.node.reactor": "protocols: what services need of a reactor",
    "txqueue.node.suspects": "state that services share: the suspects that wait for a process",
    "txqueue.node.wakeups": "state that services share: the alarms by which they wake each other",
    "txqueue.node.workers": "the jobs in the workers; the pool that keeps these is the service",
    "txqueue.node.settings": "values: how a node runs",
    "txqueue.node.worker_process": "one worker process; the pool of them is the service",
    "txqueue.node.worker_versions": "what the workers run: state that calls no service",
    "txqueue.node.worker_starter": "how one process is started; the pool of them is the service",
    "txqueue.node.worker_template": "how one process is forked; the pool of them is the service",
    "txqueue.worker.application": "the import of the application; it calls no service",
    "txqueue.worker.waiting_handler": "values: a handler that waits; it calls no service",
    "txqueue.worker.execution": "what the services hand on: a run that waits",
    "txqueue.worker.endings": "the ends of runs that the performer reports; it calls no service",
    "txqueue.worker.unstarted": "the waiting jobs of a worker; it calls no service",
    "txqueue.worker.running_job": "what the services hand on: a job as its handler sees it",
    "txqueue.worker.job_transaction": "how jobs write and complete; it calls no service",
    "txqueue.worker.failure_log": "the log of failures; it calls no service",
    "txqueue.worker.long_runs": "checks of running jobs; it calls no service",
    "txqueue.worker.job_terms": "values: the terms of one job; it calls no service",
    "txqueue.worker.run_counts": "counts that the performer writes; it calls no service",
    "txqueue.worker.report": "an interface: what the performer reports to",
    "txqueue.worker.turns": "when the performer acts; it calls no service",
    "txqueue.worker.traced_runs": "how one handler is run within a span; it calls no service",
    "txqueue.worker.handler_threads": "the threads of handlers; they call no service",
    "txqueue.worker.outlived": "which jobs have left threads; it calls no service",
    "txqueue.worker.runtimes": "how one handler is run; it calls no service",
}
"""Modules of those packages that are no service, and why: their neighbours may import them."""

EXEMPT_IMPORTS: Final[dict[tuple[str, str], str]] = {}
"""(importer, imported): the reason why this one import may break the rules."""

LONGEST_FILE: Final = 450
"""About 350 lines is a smell to look at; no file is split or glued to please a number."""
EXEMPT_FILES: Final[dict[str, str]] = {}
"""A file's path from the root: the reason why it is longer than others may be."""

NAMELESS: Final = frozenset({"utils", "util", "helpers", "helper", "common", "misc"})
MEDIAN_LINES: Final = 7
P90_LINES: Final = 20


@frozen
class Module:
    """A module of txqueue, with what it imports."""

    name: str
    path: Path

    @property
    def floor(self) -> int:
        """The floor it is on."""
        return floor_of(self.name)

    def imports(self, known: frozenset[str]) -> Iterator[tuple[str, int]]:
        """Every module it imports, anywhere in it, with the line; types count too."""
        for node in ast.walk(ast.parse(self.path.read_text())):
            if isinstance(node, ast.Import):
                yield from ((alias.name, node.lineno) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield from ((name, node.lineno) for name in self._from(node, known))

    def _from(self, node: ast.ImportFrom, known: frozenset[str]) -> Iterator[str]:
        """What `from base import names` imports: submodules by their names, else the base."""
        base = ".".join(filter(None, [self._anchor(node.level), node.module]))
        for alias in node.names:
            full = f"{base}.{alias.name}"
            yield full if full in known or full in ONLY_IN else base

    def _anchor(self, level: int) -> str:
        """The package that a relative import starts from."""
        parts = self.name.split(".")
        drop = level - 1 if self.path.name == "__init__.py" else level
        return ".".join(parts[: len(parts) - drop]) if level else ""


def is_within(name: str, package: str) -> bool:
    """Whether a module is that package or in it."""
    return name == package or name.startswith(f"{package}.")


def package_of(name: str) -> str | None:
    """The package with a floor of its own that a module is in."""
    return next((package for package in PACKAGES if is_within(name, package)), None)


def floor_of(name: str) -> int:
    """The floor of a module of txqueue."""
    package = package_of(name)
    return EDGES if package is None else PACKAGES[package]


def breach(importer: str, imported: str) -> str | None:
    """Say which rule an import breaks.

    Args:
        importer: The module that imports.
        imported: The module that is imported, ours or not.

    Returns:
        The rule, in words; None if it is fine.
    """
    if (importer, imported) in EXEMPT_IMPORTS:
        return None
    if is_within(imported, "txqueue"):
        return breach_among_us(importer, imported)
    for known, home in ONLY_IN.items():
        if is_within(imported, known) and not is_within(importer, home):
            return f"only {home} may know {known}"
    if floor_of(importer) in PURE and imported.split(".", maxsplit=1)[0] not in PURE_MAY_IMPORT:
        return "pure floors import only the standard library, attrs, cattrs and cronsim"
    return None


def breach_among_us(importer: str, imported: str) -> str | None:
    """The same, for an import of one of our own modules."""
    here, there = floor_of(importer), floor_of(imported)
    home, away = package_of(importer), package_of(imported)
    if there > here:
        return f"floor {here} must not import floor {there}: only what is below"
    if home is not None and there == here and home != away:
        return f"packages of floor {here} do not import each other"
    is_assembler = importer == home or importer.rsplit(".", maxsplit=1)[-1] in ASSEMBLERS
    if home in SERVICE_PACKAGES and home == away and not is_assembler and imported not in PARTS:
        return f"services of {home} do not import each other; {sorted(ASSEMBLERS)} join them"
    return None


def our_modules() -> list[Module]:
    """Every module of the package."""
    found = [(path, path.relative_to(ROOT).with_suffix("").parts) for path in sources("txqueue")]
    return [
        Module(".".join(parts[:-1] if parts[-1] == "__init__" else parts), path)
        for path, parts in found
    ]


def sources(*folders: str) -> list[Path]:
    """The Python files in these folders of the tree."""
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


MODULES: Final = our_modules()
KNOWN: Final = frozenset(module.name for module in MODULES)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_imports_only_from_below(module: Module) -> None:
    """No import of this module breaks a floor."""
    broken = [
        f"{module.path.relative_to(ROOT)}:{line}: {module.name} (floor {module.floor}) "
        f"imports {imported}: {rule}"
        for imported, line in sorted(set(module.imports(KNOWN)))
        if (rule := breach(module.name, imported))
    ]
    assert not broken, "\n" + "\n".join(broken)


@pytest.mark.parametrize(
    ("importer", "imported", "rule"),
    [
        ("txqueue.model.job", "txqueue.errors", None),
        ("txqueue.model.job", "cattrs", None),
        ("txqueue.model.job", "twisted.internet.defer", "pure floors import only"),
        ("txqueue.model.job", "psycopg2", "only txqueue.store may know psycopg2"),
        ("txqueue.model.job", "txqueue.store.connection_pool", "floor 2 must not import floor 5"),
        ("txqueue.model.job", "txqueue", "floor 2 must not import floor 7"),
        ("txqueue.store.connection_pool", "txqueue.store.calls", None),
        ("txqueue.store.connection_pool", "txpostgres", None),
        ("txqueue.store.connection_pool", "txqueue.wire.tls", "packages of floor 5"),
        ("txqueue.store.connection_pool", "twisted.protocols.amp", "only txqueue.wire may know"),
        ("txqueue.wire.worker_commands", "twisted.protocols.amp", None),
        ("txqueue.node.claimer", "txqueue.store.calls", None),
        ("txqueue.node.claimer", "txqueue.worker.performer", "packages of floor 6"),
        ("txqueue.node.claimer", "txqueue.node.peer_network", "services of txqueue.node"),
        ("txqueue.node.claimer", "txqueue.node", "services of txqueue.node"),
        ("txqueue.node.claimer", "txqueue.node.periodic", None),
        ("txqueue.node.periodic", "txqueue.node.claimer", "services of txqueue.node"),
        ("txqueue.node.node", "txqueue.node.peer_network", None),
        ("txqueue.node", "txqueue.node.peer_network", None),
        ("txqueue.worker.__main__", "txqueue.worker.performer", None),
        ("txqueue.client.queue", "txqueue.client.transaction", None),
        ("txqueue.client.queue", "txqueue.tap", "floor 6 must not import floor 7"),
        ("txqueue.tap", "txqueue.node.node", None),
        ("txqueue.cli.main", "txqueue.embedded", None),
        ("txqueue.cli.main", "psycopg2.errors", "only txqueue.store may know psycopg2"),
    ],
)
def test_the_rules_say_what_they_mean(importer: str, imported: str, rule: str | None) -> None:
    """Each rule catches what it is for, and nothing else."""
    found = breach(importer, imported)
    assert found is None if rule is None else found is not None and found.startswith(rule)


def test_no_exemption_is_idle() -> None:
    """Whatever the tables excuse is still there."""
    importers = {importer for importer, _ in EXEMPT_IMPORTS}
    assert {*PARTS, *importers} <= KNOWN


def test_every_kind_of_import_is_read(tmp_path: Path) -> None:
    """Absolute and relative, whole and in part, at the top and inside a function."""
    path = tmp_path / "claimer.py"
    path.write_text(
        "import os.path\n"
        "from txqueue.model import job, Priority\n"
        "from . import peer_network\n"
        "from ..store.calls import claim\n"
        "from twisted.protocols import amp\n"
        "def late():\n"
        "    from .lease import Registry\n"
    )
    module = Module("txqueue.node.claimer", path)
    known = frozenset({"txqueue.model.job", "txqueue.node.peer_network", "txqueue.node.lease"})
    assert {name for name, _ in module.imports(known)} == {
        "os.path",
        "txqueue.model.job",
        "txqueue.model",
        "txqueue.node.peer_network",
        "txqueue.store.calls",
        "twisted.protocols.amp",
        "txqueue.node.lease",
    }


def test_files_are_named_for_what_they_hold() -> None:
    """No file or folder whose name says nothing."""
    paths = [path.relative_to(ROOT) for path in sources("txqueue", "tests", "benchmarks")]
    nameless = [str(path) for path in paths if NAMELESS & {*path.parent.parts, path.stem}]
    assert not nameless, f"what do these hold? {nameless}"


def test_files_are_small() -> None:
    """No file longer than a reader can hold, unless there is a reason; no idle exemption."""
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text().splitlines())
        for path in sources("txqueue", "tests", "benchmarks")
    }
    long = {path for path, length in lengths.items() if length > LONGEST_FILE}
    assert long == set(EXEMPT_FILES), {path: lengths.get(path) for path in long ^ set(EXEMPT_FILES)}


def test_functions_are_short() -> None:
    """Of all functions, half are tiny and nine of ten fit a glance; docstrings are free."""
    lengths = sorted(
        length for module in MODULES for length in function_lengths(module.path.read_text())
    )
    median, p90 = statistics.median(lengths), lengths[int(0.9 * len(lengths))]
    assert median <= MEDIAN_LINES, f"median {median}"
    assert p90 <= P90_LINES, f"90th percentile {p90}, longest {lengths[-1]}"


def function_lengths(source: str) -> Iterator[int]:
    """The lines of each function and method, without decorators and docstring."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield node.end_lineno - node.lineno + 1 - docstring_lines(node)


def docstring_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function's docstring."""
    if ast.get_docstring(node) is None:
        return 0
    first = node.body[0]
    assert first.end_lineno is not None
    return first.end_lineno - first.lineno + 1
