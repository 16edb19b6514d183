"""Libraries are used by their public interfaces: nothing of theirs is reached into or patched.

The tables at the top are the exceptions; what follows reads the syntax of every module.
"""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from attrs import field, frozen

from tests.unit.test_floors import MODULES, Module

PUBLIC_ALL_THE_SAME: Final = {
    "_exit": "of os, documented: its underscore only says that nothing is cleaned up",
    "_replace": "of named tuples, documented: its underscore keeps it apart from their fields",
}
"""What is public in spite of its underscore: the reason."""

ONLY_THE_REACTOR_CALLS: Final = frozenset({"doRead", "doWrite"})
"""Methods of transports and descriptors that only a reactor calls."""


@frozen
class Class:
    """A class of ours, as its source has it."""

    bases: tuple[str, ...]
    private: frozenset[str] = field(factory=frozenset)


def is_private(name: str) -> bool:
    """Whether a name is its owner's own affair."""
    return name.startswith("_") and not name.endswith("__") and name != "_"


def dotted(node: ast.expr) -> str:
    """An expression as it is written, as far as it is names and dots."""
    return ast.unparse(node)


def names_defined_in(node: ast.ClassDef) -> Iterator[str]:
    """What a class defines: methods, attributes of the class, and what its methods set of self."""
    for each in ast.walk(node):
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            yield each.name
        elif isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            yield each.id
        elif isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store):
            yield each.attr


def classes_in(source: str) -> Iterator[tuple[str, Class]]:
    """The classes of a module by name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            # A generic base is the class before its brackets.
            plain = (each.value if isinstance(each, ast.Subscript) else each for each in node.bases)
            bases = tuple(dotted(base).rsplit(".", maxsplit=1)[-1] for base in plain)
            yield node.name, Class(bases, frozenset(filter(is_private, names_defined_in(node))))


def our_classes() -> dict[str, Class]:
    """Every class of the package by name; those of one name count as one."""
    found: dict[str, Class] = {}
    for module in MODULES:
        for name, each in classes_in(module.path.read_text()):
            known = found.get(name, Class(()))
            found[name] = Class(known.bases + each.bases, known.private | each.private)
    return found


CLASSES: Final = our_classes()


def private_names_of(name: str) -> frozenset[str]:
    """The private names of a class of ours and of its bases that are ours."""
    known = CLASSES.get(name)
    if known is None:
        return frozenset()
    bases = (private_names_of(base) for base in known.bases if base != name)
    return known.private.union(*bases)


def breaches(source: str) -> Iterator[str]:
    """What a module does to a library, as `line: what`."""
    tree = ast.parse(source)
    own = dict(classes_in(source))
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield from _of_a_class(node, own[node.name])
        elif isinstance(node, ast.Attribute):
            yield from _of_an_attribute(node, _private_in(own))
        elif isinstance(node, ast.Call):
            yield from _of_a_call(node)


def _private_in(own: dict[str, Class]) -> frozenset[str]:
    return frozenset[str]().union(*(each.private for each in own.values()))


def _of_a_class(node: ast.ClassDef, own: Class) -> Iterator[str]:
    """A class uses of itself only what it or another class of ours defines."""
    known = own.private.union(*(private_names_of(base) for base in own.bases))
    for each in ast.walk(node):
        if (
            isinstance(each, ast.Attribute)
            and is_private(each.attr)
            and dotted(each.value) in ("self", "cls", "super()")
            and each.attr not in known
        ):
            yield f"{each.lineno}: {dotted(each)} is defined by no class of ours"


def _of_an_attribute(node: ast.Attribute, ours: frozenset[str]) -> Iterator[str]:
    """Other objects' private names are of classes of the module; nothing of a reactor is set."""
    owner = dotted(node.value)
    if isinstance(node.ctx, ast.Store | ast.Del) and owner.split(".")[-1].endswith("reactor"):
        yield f"{node.lineno}: {dotted(node)} is set"
    is_other_s = is_private(node.attr) and owner not in ("self", "cls", "super()")
    if is_other_s and node.attr not in PUBLIC_ALL_THE_SAME and node.attr not in ours:
        yield f"{node.lineno}: {dotted(node)} is private to a library"


def _of_a_call(node: ast.Call) -> Iterator[str]:
    called = node.func
    if not isinstance(called, ast.Attribute) or called.attr not in ONLY_THE_REACTOR_CALLS:
        return
    if dotted(called.value) not in ("self", "super()"):
        yield f"{node.lineno}: {dotted(called)}() is called, which only a reactor does"


def overridden(name: str, cls: type) -> Iterator[str]:
    """Private names of a library's class that a subclass here redefines."""
    own = CLASSES[name].private
    for base in cls.__mro__[1:]:
        if not base.__module__.startswith("txqueue"):
            yield from (f"{name}: {each} of {base.__name__}" for each in own & vars(base).keys())


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_no_library_is_reached_into(module: Module) -> None:
    """No private attribute is touched, no reactor is patched or done the work of."""
    found = [f"{module.path.name}:{each}" for each in breaches(module.path.read_text())]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize("name", ["store", "wire", "node", "worker", "client", "admin"])
def test_no_private_method_of_a_library_is_overridden(name: str) -> None:
    """A class of ours that has a library's for a base defines no name that is private there."""
    found: list[str] = []
    for module in MODULES:
        if module.name.startswith(f"txqueue.{name}.") and not module.name.endswith("__main__"):
            loaded = importlib.import_module(module.name)
            for each, _ in classes_in(module.path.read_text()):
                cls = getattr(loaded, each, None)
                found += overridden(each, cls) if isinstance(cls, type) else []
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            "class A(amp.AMP):\n    def f(self): self._wrapWithSerialization()",
            "by no class of ours",
        ),
        (
            "class A(txpostgres.Connection):\n    def f(self): return self._connectionX",
            "by no class",
        ),
        ("class A(B):\n    def f(self): super()._safeEmit(1)", "by no class of ours"),
        ("def f(reactor): reactor.seconds = 1", "reactor.seconds is set"),
        ("class A:\n    def f(self): self._reactor.seconds = 1", "self._reactor.seconds is set"),
        ("def f(transport): transport.doWrite()", "which only a reactor does"),
        ("def f(transport): return transport._tempDataBuffer", "private to a library"),
        ("class A:\n    def f(self): self._b = 1; self.doRead(); super().doWrite()", None),
        ("class A:\n    _b = 1\ndef f(a): return a._b", None),
        ("def f(connection): return connection._cursor", "private to a library"),
        ("import os\nos._exit(1)", None),
    ],
)
def test_the_rules_catch_what_they_are_for(source: str, said: str | None) -> None:
    """Each of what was done once, and nothing else."""
    found = list(breaches(source))
    assert (said is None) == (not found), found
    assert said is None or any(said in each for each in found)


def test_no_exception_is_idle() -> None:
    """What the table excuses is still there."""
    sources = "".join(Path(module.path).read_text() for module in MODULES)
    assert all(f".{each}(" in sources for each in PUBLIC_ALL_THE_SAME)
