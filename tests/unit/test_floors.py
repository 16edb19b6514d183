"""The house: each floor imports only from below, and functions are short.

The rules are the tables at the top; what follows only reads imports and compares.
"""

import ast
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeGuard

import pytest
from attrs import frozen

ROOT: Final = Path(__file__).resolve().parents[2]
HOMES: Final = {ROOT: ("txqueue",), ROOT / "laboratory": ("txqueue_bench", "txqueue_torture")}
"""The packages of each distribution, by the folder that they are in."""
OURS: Final = {package for packages in HOMES.values() for package in packages}

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
    "txqueue_bench": 8,
    "txqueue_torture": 9,
}
"""The floor of each package; packages of one floor do not import each other."""

EDGES: Final = 7
"""The floor of all the rest of txqueue."""

PURE: Final = range(4)
"""The floors without a reactor and without a driver."""

PURE_MAY_IMPORT: Final = frozenset(
    {*sys.stdlib_module_names, "attr", "attrs", "cattr", "cattrs", "cronsim"}
)
"""What the pure floors may import besides txqueue: nothing of Twisted's, no driver."""

ONLY_IN: Final[dict[str, tuple[str, ...]]] = {
    "psycopg2": (
        *("txqueue.store", "txqueue.adapters.psycopg2"),
        *("txqueue_torture.database_clock", "txqueue_torture.sockets"),
    ),
    "psycopg": (
        *("txqueue.adapters.psycopg", "txqueue.standalone"),
        *("txqueue.aio", "txqueue.sync"),
    ),
    "psycopg_pool": ("txqueue.standalone", "txqueue.aio", "txqueue.sync"),
    "asyncpg": ("txqueue.adapters.asyncpg",),
    "sqlalchemy": ("txqueue.adapters.sqlalchemy",),
    "django": ("txqueue.adapters.django", "txqueue.django"),
    "txpostgres": ("txqueue.store",),
    "pyarrow": ("txqueue.archive",),
    "jinja2": ("txqueue.web",),
    "prometheus_client": ("txqueue.metrics",),
    "opentelemetry": ("txqueue.tracing",),
    "sentry_sdk": ("txqueue.sentry",),
    "mcp": ("txqueue.agents",),
    "mcp_types": ("txqueue.agents",),
    "twisted.protocols.amp": ("txqueue.wire",),
}
"""What only these packages may know."""

_ADAPTERS_MAY: Final = (
    "txqueue.adapters",
    "txqueue.errors",
    "txqueue.model",
    "txqueue.store.enqueueing",
    "txqueue.tracing",
)
_QUEUES_MAY: Final = (
    *_ADAPTERS_MAY,
    "txqueue.policy",
    "txqueue.standalone",
    "txqueue.store.driver.session_bounds",
    "txqueue.store.driver.shared_errors",
    "txqueue.store.inquiries",
    "txqueue.store.schema",
    "txqueue.system",
)
WITHOUT_TWISTED: Final = {
    "txqueue.adapters": _ADAPTERS_MAY,
    "txqueue.standalone": _QUEUES_MAY,
    "txqueue.aio": (*_QUEUES_MAY, "txqueue.aio"),
    "txqueue.sync": (*_QUEUES_MAY, "txqueue.sync"),
}
"""The edges that must not need Twisted, and what else of us each may import."""

SHARED_FOLDERS: Final = {
    "txqueue.store": ("driver", "schema", "inquiries"),
    "txqueue.node": ("state",),
    "txqueue.worker": ("handlers",),
}
"""Of each package with folders, those that its others may import, the lowest first.

A module imports from its own folder, from lower shared ones and from lower floors; under
`TYPE_CHECKING` from all of its package, as a service names those that it is given. Only the modules
at the package's root import from every folder.
"""

EXEMPT_IMPORTS: Final[dict[tuple[str, str], str]] = {}
"""(importer, imported): the reason why this one import may break the rules."""

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

    def imports(self, known: frozenset[str]) -> Iterator[tuple[str, int, bool]]:
        """Every module it imports, anywhere in it, with the line, and whether only for types."""
        tree = ast.parse(self.path.read_text())
        typed = {id(each) for block in ast.walk(tree) if is_typed(block) for each in block.body}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                yield from ((alias.name, node.lineno, id(node) in typed) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield from (
                    (name, node.lineno, id(node) in typed) for name in self._from(node, known)
                )

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


def is_typed(node: ast.AST) -> TypeGuard[ast.If]:
    """Whether what is in it is only for type checkers."""
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


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


def breach(importer: str, imported: str, *, is_typed: bool = False) -> str | None:
    """Say which rule an import breaks.

    Args:
        importer: The module that imports.
        imported: The module that is imported, ours or not.
        is_typed: Whether only type checkers see it.

    Returns:
        The rule, in words; None if it is fine.
    """
    if (importer, imported) in EXEMPT_IMPORTS:
        return None
    if imported.split(".", maxsplit=1)[0] in OURS:
        return breach_among_us(importer, imported, is_typed=is_typed)
    for known, homes in ONLY_IN.items():
        if is_within(imported, known) and not any(is_within(importer, home) for home in homes):
            return f"only {' and '.join(homes)} may know {known}"
    if without_twisted(importer) is not None and is_within(imported, "twisted"):
        return f"{without_twisted(importer)} needs no Twisted"
    if floor_of(importer) in PURE and imported.split(".", maxsplit=1)[0] not in PURE_MAY_IMPORT:
        return "pure floors import only the standard library, attrs, cattrs and cronsim"
    return None


def breach_among_us(importer: str, imported: str, *, is_typed: bool) -> str | None:
    """The same, for an import of one of our own modules."""
    light = without_twisted(importer)
    if light is not None and not any(is_within(imported, each) for each in WITHOUT_TWISTED[light]):
        return f"{light} imports only {' and '.join(WITHOUT_TWISTED[light])}"
    if is_within(imported, "txqueue.django") and not is_within(importer, "txqueue.django"):
        return "projects of Django import txqueue.django, and nothing else does"
    here, there = floor_of(importer), floor_of(imported)
    home, away = package_of(importer), package_of(imported)
    if there > here:
        return f"floor {here} must not import floor {there}: only what is below"
    if home is not None and there == here and home != away:
        return f"packages of floor {here} do not import each other"
    if home in SHARED_FOLDERS and home == away and not is_typed:
        return breach_among_folders(home, importer, imported)
    return None


def without_twisted(name: str) -> str | None:
    """The edge without Twisted that a module is in."""
    return next((edge for edge in WITHOUT_TWISTED if is_within(name, edge)), None)


def breach_among_folders(package: str, importer: str, imported: str) -> str | None:
    """The same, for an import within a package with folders."""
    shared = SHARED_FOLDERS[package]
    here, there = folder_of(package, importer), folder_of(package, imported)
    lower = shared[: shared.index(here)] if here in shared else shared
    if here is None or there in (here, *lower):
        return None
    return f"folders of {package} import only themselves and {lower}; its root joins them"


def folder_of(package: str, name: str) -> str | None:
    """The folder that a module is in; None at the root of its package."""
    folder = name.removeprefix(package).lstrip(".").split(".", maxsplit=1)[0]
    is_folder = folder and (ROOT / package.replace(".", "/") / folder).is_dir()
    return folder if is_folder else None


def our_modules() -> list[Module]:
    """Every module of the packages."""
    found = [
        (path, path.relative_to(home).with_suffix("").parts)
        for home, packages in HOMES.items()
        for package in packages
        for path in sorted((home / package).rglob("*.py"))
    ]
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
        for imported, line, is_typed in sorted(set(module.imports(KNOWN)))
        if (rule := breach(module.name, imported, is_typed=is_typed))
    ]
    assert not broken, "\n" + "\n".join(broken)


@pytest.mark.parametrize(
    ("importer", "imported", "rule"),
    [
        ("txqueue.model.job", "txqueue.errors", None),
        ("txqueue.model.job", "cattrs", None),
        ("txqueue.model.job", "twisted.internet.defer", "pure floors import only"),
        ("txqueue.model.job", "psycopg2", "only txqueue.store and"),
        ("txqueue.model.job", "txqueue.store.driver.errors", "floor 2 must not import floor 5"),
        ("txqueue.model.job", "txqueue", "floor 2 must not import floor 7"),
        ("txqueue.store.driver.errors", "txpostgres", None),
        ("txqueue.store.driver.errors", "txqueue.wire.tls", "packages of floor 5"),
        ("txqueue.store.driver.errors", "twisted.protocols.amp", "only txqueue.wire may know"),
        ("txqueue.store.driver.errors", "txqueue.store.schema.files", "folders of txqueue.store"),
        ("txqueue.store.schema.files", "txqueue.store.driver.errors", None),
        ("txqueue.store.reads.history", "txqueue.store.inquiries.reader", None),
        ("txqueue.store.reads.history", "txqueue.store.node.functions", "folders of txqueue.store"),
        ("txqueue.store.reads.examination.facts", "txqueue.store.reads.history", None),
        ("txqueue.wire.commands", "twisted.protocols.amp", None),
        ("txqueue.node.arrival.claimer", "txqueue.store.node.functions", None),
        ("txqueue.node.arrival.claimer", "txqueue.worker.running.performer", "packages of floor 6"),
        ("txqueue.node.arrival.claimer", "txqueue.node.peers.network", "folders of txqueue.node"),
        ("txqueue.node.arrival.claimer", "txqueue.node.services", "folders of txqueue.node"),
        ("txqueue.node.arrival.claimer", "txqueue.node", "folders of txqueue.node"),
        ("txqueue.node.arrival.claimer", "txqueue.node.state.periodic", None),
        ("txqueue.node.arrival.claimer", "txqueue.node.arrival.assigned", None),
        ("txqueue.node.state.periodic", "txqueue.node.arrival.claimer", "folders of txqueue.node"),
        ("txqueue.node.services", "txqueue.node.peers.network", None),
        ("txqueue.worker.__main__", "txqueue.worker.running.performer", None),
        ("txqueue.client.queue", "txqueue.client.waiting", None),
        ("txqueue.client.queue", "txqueue.tap", "floor 6 must not import floor 7"),
        ("txqueue.tap", "txqueue.node.node", None),
        ("txqueue.cli.root", "txqueue.embedded", None),
        ("txqueue.cli.root", "psycopg2.errors", "only txqueue.store and"),
        ("txqueue.cli.main", "txqueue_bench.drain", "floor 7 must not import floor 8"),
        ("txqueue_torture.node", "txqueue_bench.environment", None),
        ("txqueue.adapters.psycopg2", "psycopg2.extensions", None),
        ("txqueue.adapters.psycopg2", "psycopg", "only txqueue.adapters.psycopg and"),
        ("txqueue.adapters.asyncpg", "twisted.internet.defer", "txqueue.adapters needs no Twisted"),
        ("txqueue.adapters.calls", "txqueue.client.queue", "txqueue.adapters imports only"),
        ("txqueue.aio.queue", "twisted.internet.defer", "txqueue.aio needs no Twisted"),
        ("txqueue.aio.queue", "txqueue.sync.queue", "txqueue.aio imports only"),
        ("txqueue.sync.queue", "txqueue.standalone.sessions", None),
        (
            "txqueue.standalone.sessions",
            "txqueue.store.driver.errors",
            "txqueue.standalone imports",
        ),
        ("txqueue.adapters.calls", "txqueue.tracing.choice", None),
        ("txqueue_torture.node", "psycopg2", "only txqueue.store and"),
        ("txqueue.tap", "django.db", "only txqueue.adapters.django and txqueue.django may know"),
        ("txqueue.tap", "txqueue.django.project", "projects of Django import txqueue.django"),
        ("txqueue.django.backend", "txqueue.adapters.django", None),
    ],
)
def test_the_rules_say_what_they_mean(importer: str, imported: str, rule: str | None) -> None:
    """Each rule catches what it is for, and nothing else."""
    found = breach(importer, imported)
    assert found is None if rule is None else found is not None and found.startswith(rule)


def test_a_service_may_name_the_types_of_others() -> None:
    """Those of its floor; what is above stays unknown to it."""
    claimer, handover = "txqueue.node.arrival.claimer", "txqueue.node.peers.handover"
    assert breach(claimer, handover, is_typed=True) is None
    assert breach(claimer, "txqueue.tap", is_typed=True) is not None


def test_no_exemption_is_idle() -> None:
    """Whatever the tables excuse or share is still there."""
    importers = {importer for importer, _ in EXEMPT_IMPORTS}
    shared = {f"{package}.{name}" for package, names in SHARED_FOLDERS.items() for name in names}
    assert {*shared, *importers} <= KNOWN


def test_every_kind_of_import_is_read(tmp_path: Path) -> None:
    """Absolute and relative, whole and in part, at the top and inside a function."""
    path = tmp_path / "claimer.py"
    path.write_text(
        "import os.path\n"
        "from txqueue.model import job, Priority\n"
        "from . import assigned\n"
        "from ...store.calls import claim\n"
        "from twisted.protocols import amp\n"
        "def late():\n"
        "    from .notifications import Registry\n"
        "if TYPE_CHECKING:\n"
        "    import twisted\n"
    )
    module = Module("txqueue.node.arrival.claimer", path)
    known = frozenset({"txqueue.model.job", "txqueue.node.arrival.assigned"})
    typed = {name: is_typed for name, _, is_typed in module.imports(known)}
    assert [name for name, is_so in typed.items() if is_so] == ["twisted"]
    assert typed.keys() == {
        "twisted",
        "os.path",
        "txqueue.model.job",
        "txqueue.model",
        "txqueue.node.arrival.assigned",
        "txqueue.store.calls",
        "twisted.protocols.amp",
        "txqueue.node.arrival.notifications",
    }


def test_files_are_named_for_what_they_hold() -> None:
    """No file or folder whose name says nothing."""
    paths = [
        path.relative_to(ROOT) for path in sources("txqueue", "laboratory", "tests", "benchmarks")
    ]
    nameless = [str(path) for path in paths if NAMELESS & {*path.parent.parts, path.stem}]
    assert not nameless, f"what do these hold? {nameless}"


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
