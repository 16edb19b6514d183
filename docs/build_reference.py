"""Writes docs/reference/python-api.md from the package's docstrings, without importing it.

    python docs/build_reference.py

A test holds the file against what this makes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from inspect import cleandoc
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

__all__ = ["TARGET", "reference"]

ROOT: Final = Path(__file__).resolve().parent.parent
TARGET: Final = ROOT / "docs" / "reference" / "python-api.md"

# What stands where. Every name that `txqueue` exports must be here, and those of the modules that
# `reference` lists, or nothing is written.
CHAPTERS: Final = (
    (
        "Enqueue work and ask after it",
        "txqueue",
        ("WorkQueue", "Transaction", "enqueue"),
    ),
    (
        "Enqueue with other drivers",
        "txqueue.adapters",
        ("statement", "statements", "error_of", "BlockingBatch"),
    ),
    ("Without Twisted: asyncio", "txqueue.aio", ("Queue", "AsyncTransaction")),
    ("Without Twisted: threads and scripts", "txqueue.sync", ("Queue", "BlockingTransaction")),
    ("A node that was joined", "txqueue", ("Membership",)),
    ("Options of enqueue", "txqueue", ("EnqueueOptions",)),
    ("A batch that is put together", "txqueue", ("Batch",)),
    ("How those ended that a job waited for", "txqueue", ("Parents",)),
    ("Define work", "txqueue", ("WorkItem", "Key", "Priority", "Runtime", "UniqueMode", "Retry")),
    ("Functions as work", "txqueue", ("task", "Task", "middleware")),
    ("Tasks of Django", "txqueue.django", ("TxqueueBackend", "policy", "work", "RunningContext")),
    (
        "What the tasks of Django show",
        "txqueue.django",
        ("TaskCancelled", "AttemptFailed", "OtherTransaction"),
    ),
    ("Recurring work", "txqueue", ("Every", "Cron", "Cooldown", "CatchUp", "Exists")),
    ("Schedules by their names", "txqueue", ("Schedules", "ScheduleRun")),
    (
        "Inside a handler",
        "txqueue",
        ("RunningJob", "ThreadJob", "Snooze", "Discard", "Fail", "Next"),
    ),
    ("Durable steps", "txqueue", ("StepTransaction", "StepCursor")),
    ("Failures as they happen", "txqueue", ("on_failure", "FailedAttempt")),
    ("Worksets", "txqueue", ("WorksetItem", "ExistingTable")),
    ("How far a workset is", "txqueue", ("WorksetStatus",)),
    ("A part of a workset", "txqueue", ("RunningPart",)),
    ("Jobs", "txqueue", ("Job", "State")),
    ("A run that failed", "txqueue", ("Attempt",)),
    (
        "Test jobs",
        "txqueue.testing",
        (
            "perform",
            "aperform",
            "Outcome",
            "assert_enqueued",
            "aassert_enqueued",
            "refute_enqueued",
            "arefute_enqueued",
            "all_enqueued",
            "aall_enqueued",
            "capture_enqueued",
            "Capture",
            "drain",
            "adrain",
            "clear",
            "aclear",
            "connected",
        ),
    ),
    ("Look after it", "txqueue.admin", ("Admin", "JobsPage", "Cancelled")),
    (
        "Errors",
        "txqueue.errors",
        (
            "TxqueueError",
            "InvalidSchedule",
            "InvalidWork",
            "UnreadablePayload",
            "UnknownWorkType",
            "Refused",
            "NotPermitted",
            "QueueFull",
            "Duplicate",
            "TransactionMisused",
            "JobNotFound",
            "KeyUnavailable",
            "JobFailed",
            "WaitTimeout",
            "TimedOut",
            "Suspended",
            "TokenLost",
            "DatabaseUnavailable",
            "SchemaMismatch",
            "ConfigurationError",
            "EmbeddedUnavailable",
            "NodeUnavailable",
            "AdminRefused",
            "ArchiveUnavailable",
        ),
    ),
    ("An embedded server", "txqueue.embedded", ("EmbeddedServer",)),
)
# Constructors that users do not call: others make these for them.
MADE_BY_OTHERS: Final = frozenset(
    {
        "Admin",
        "AsyncTransaction",
        "Batch",
        "BlockingBatch",
        "BlockingTransaction",
        "Cancelled",
        "Capture",
        "Job",
        "JobsPage",
        "Membership",
        "Queue",
        "ScheduleRun",
        "RunningJob",
        "Schedules",
        "Task",
        "ThreadJob",
        "Transaction",
        "WorkQueue",
    }
)
HIDDEN: Final = frozenset(
    {
        "AsyncTransaction.check",
        "AsyncTransaction.end",
        "BlockingBatch.end",
        "BlockingTransaction.check",
        "BlockingTransaction.end",
        "EmbeddedServer.pids",
        "Job.from_row",
        "Membership.open",
        "Membership.close",
        "Membership.credit_for",
        "Membership.deliver",
        "Membership.wake",
        "Cooldown.after",
        "Cron.after",
        "Every.after",
        "Schedules.due",
        "Schedules.mend",
        "Schedules.publish",
        "Schedules.put",
        "Schedules.tick",
        "Schedules.trim",
        "Retry.delay",
        "StepTransaction.end",
        "Retry.is_spent",
        "RunningJob.assignment",
        "RunningJob.key",
        "RunningJob.its_steps",
        "RunningJob.note_steps",
        "Transaction.coalesce_into",
        "RunningJob.token",
    }
)
WITH_BASE: Final = MappingProxyType(
    {"RunningJob": ("txqueue/worker/handlers/running_job.py", "DurableJob")}
)
WIDTH: Final = 88
OWN: Final = "the work type's own"
TITLES: Final = {"Args": "Arguments"}

HEAD: Final = """\
# The Python API

<!-- Made by docs/build_reference.py from the docstrings. Edit those, then run it again. -->

Everything here may be imported from `txqueue`, except where an import line says otherwise.
Coroutines are Twisted's: await them inside the reactor.
"""

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


class Section(NamedTuple):
    """A part of a docstring: ``Args:`` and the like, or plain text under an empty title."""

    title: str
    lines: list[str]


def reference() -> str:
    """Return the text of the reference.

    Raises:
        LookupError: When the package exports a name that no chapter has.
    """
    listed = {name for _, _, names in CHAPTERS for name in names}
    modules = ("txqueue", "txqueue.django", "txqueue.errors", "txqueue.testing")
    exported = {name for module in modules for name in _exported(module)}
    if missing := exported - listed:
        raise LookupError(f"no chapter of docs/build_reference.py has {', '.join(sorted(missing))}")
    return "\n".join([HEAD, *_contents(), *_chapters()]).rstrip() + "\n"


def _contents() -> Iterator[str]:
    earlier: list[str] = []
    for title, _, names in CHAPTERS:
        links = ", ".join(f"[`{name}`](#{_anchor(name, earlier)})" for name in names)
        yield f"- {title}: {links}"
    yield ""


def _anchor(name: str, earlier: list[str]) -> str:
    """Return the anchor of a heading; of names that differ by their case, the later is numbered."""
    anchor = name.lower()
    earlier.append(anchor)
    return anchor if earlier.count(anchor) == 1 else f"{anchor}-{earlier.count(anchor) - 1}"


def _chapters() -> Iterator[str]:
    for title, module, names in CHAPTERS:
        yield f"## {title}\n"
        if module != "txqueue":
            yield _code(_call(f"from {module} import ", names, ""))
        told: dict[str | None, str] = {}
        for name in names:
            node = _definition(module, name)
            # The function that blocks has the text of the coroutine that it is made of.
            if isinstance(node, ast.AsyncFunctionDef) and ast.get_docstring(node) in told:
                text = f"See `{told[ast.get_docstring(node)]}`; over any connection."
                node.body = [ast.Expr(ast.Constant(text))]
            elif isinstance(node, Function):
                told[ast.get_docstring(node)] = name
            yield from _entry(name, node)


def _methods(node: ast.ClassDef) -> Iterator[Function]:
    """Yield the methods of a class, then those of a base that has no entry of its own."""
    for function in _functions(node):
        if not any(ast.unparse(each).endswith(".setter") for each in function.decorator_list):
            yield function
    if node.name in WITH_BASE:
        yield from _functions(_base_of(node.name))


def _base_of(name: str) -> ast.ClassDef:
    file, base = WITH_BASE[name]
    found = ast.parse((ROOT / file).read_text()).body
    return next(each for each in found if isinstance(each, ast.ClassDef) and each.name == base)


def _entry(name: str, node: ast.AST) -> Iterator[str]:
    yield f"### {name}\n"
    if isinstance(node, ast.ClassDef):
        yield from _class(node)
    elif isinstance(node, Function):
        yield from _function(node, "")


def _class(node: ast.ClassDef) -> Iterator[str]:
    initialiser = next((each for each in _functions(node) if each.name == "__init__"), None)
    if initialiser is not None and node.name not in MADE_BY_OTHERS:
        yield _code(_call(f"class {node.name}", _parameters(initialiser, is_method=True), ""))
    elif bases := ", ".join(map(ast.unparse, node.bases)):
        yield _code(f"class {node.name}({bases})")
    sections = _sections(ast.get_docstring(node))
    if node.name in MADE_BY_OTHERS:
        sections = [each for each in sections if each.title != "Args"]
    yield from _rendered(sections, dict(_defaults(node)))
    if initialiser is not None and node.name not in MADE_BY_OTHERS:
        yield from _rendered(_sections(ast.get_docstring(initialiser))[1:])
    if not any(section.title == "Attributes" for section in sections):
        yield from _fields(node)
    for function in _methods(node):
        qualified = f"{node.name}.{function.name}"
        if not function.name.startswith("_") and qualified not in HIDDEN:
            yield f"#### {qualified}\n"
            yield from _function(function, f"{node.name}.")


def _functions(node: ast.ClassDef | ast.If) -> Iterator[Function]:
    """Find the functions of a class, those of one condition included, without overloads."""
    for each in node.body:
        if isinstance(each, ast.If):
            yield from _functions(each)
        elif isinstance(each, Function) and not _is_overload(each):
            yield each


def _is_overload(node: ast.stmt) -> bool:
    return "overload" in map(ast.unparse, getattr(node, "decorator_list", ()))


def _function(node: Function, prefix: str) -> Iterator[str]:
    decorators = {ast.unparse(each) for each in node.decorator_list}
    returns = ast.unparse(node.returns) if node.returns is not None else "None"
    name = prefix + node.name
    parameters = _parameters(node, is_method=bool(prefix) and "staticmethod" not in decorators)
    if "property" in decorators:
        yield _code(f"{name}: {returns}")
    elif "asynccontextmanager" in decorators or returns.startswith("AbstractAsyncContextManager["):
        given = returns.partition("[")[2].removesuffix("]")
        yield _code(_call(f"async with {name}", parameters, f" as {given}"))
    elif "contextmanager" in decorators or returns.startswith("AbstractContextManager["):
        given = returns.partition("[")[2].removesuffix("]")
        yield _code(_call(f"with {name}", parameters, f" as {given}"))
    else:
        wait = "await " if isinstance(node, ast.AsyncFunctionDef) else ""
        yield _code(_call(wait + name, parameters, f" -> {returns}"))
    yield from _rendered(_sections(ast.get_docstring(node)))


def _parameters(node: Function, *, is_method: bool) -> list[str]:
    """Return what stands between the parentheses, without self, or the class of a class method."""
    its = node.args
    plain = [*its.posonlyargs, *its.args]
    without = [None] * (len(plain) - len(its.defaults))
    found = [_parameter(*pair) for pair in zip(plain, [*without, *its.defaults], strict=True)]
    if is_method:
        found = found[1:]
    if its.vararg is not None:
        found.append("*" + _parameter(its.vararg))
    elif its.kwonlyargs:
        found.append("*")
    found += [_parameter(*pair) for pair in zip(its.kwonlyargs, its.kw_defaults, strict=True)]
    return found + (["**" + _parameter(its.kwarg)] if its.kwarg is not None else [])


def _parameter(given: ast.arg, default: ast.expr | None = None) -> str:
    kind = f": {ast.unparse(given.annotation)}" if given.annotation is not None else ""
    return given.arg + kind + (f" = {ast.unparse(default)}" if default is not None else "")


def _call(start: str, parts: Iterable[str], end: str) -> str:
    """Put a call into one line, or into a line for each part if it is long."""
    is_import = start.endswith(" ")
    line = f"{start}{', '.join(parts)}" if is_import else f"{start}({', '.join(parts)}){end}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{start}(", *(f"    {part}," for part in parts), f"){end}"])


def _fields(node: ast.ClassDef) -> Iterator[str]:
    """List the fields of a class of values, or the members of an enumeration."""
    lines = []
    for each, after in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(each, ast.AnnAssign):
            lines.append(_option(each) or f"- `{ast.unparse(each)}`")
        elif isinstance(each, ast.Assign):
            said = f": {_plain(cleandoc(text))}" if (text := _literal(after)) else ""
            lines.append(f"- `{ast.unparse(each)}`{said}")
    if lines:
        yield "\n".join(lines) + "\n"


def _option(field: ast.AnnAssign) -> str | None:
    """Describe an option of enqueue, which is annotated with its declaration; None for others."""
    match field.annotation:
        case ast.Subscript(slice=ast.Tuple([kind, ast.Call(func, [about, *_], more)])):
            given = {word.arg: ast.unparse(word.value).strip("'") for word in more}
            is_own = ast.unparse(func) == "_by_class"
            default = OWN if is_own else given.get("default", "none")
            said = _plain(ast.literal_eval(about))
            name = f"{ast.unparse(field.target)}: {ast.unparse(kind)}"
            return f"- `{name}`: {said} Default: {default}."
    return None


def _defaults(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """Find the default values of the attributes of a class."""
    for each in node.body:
        if isinstance(each, ast.AnnAssign) and each.value is not None:
            value = each.value
            if isinstance(value, ast.Call) and ast.unparse(value.func) == "field":
                given = [word.value for word in value.keywords if word.arg == "default"]
                if not given:
                    continue
                value = given[0]
            yield ast.unparse(each.target), ast.unparse(value)


def _literal(node: ast.AST | None) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return str(node.value.value)
    return ""


def _rendered(
    sections: Iterable[Section], defaults: Mapping[str, str] = MappingProxyType({})
) -> Iterator[str]:
    for title, lines in sections:
        text = _plain("\n".join(lines).strip("\n"))
        if not title:
            yield text + "\n"
        elif title in ("Returns", "Yields"):
            yield f"**{title}:** {_joined(text)}\n"
        else:
            items = "\n".join(f"- {item}" for item in _items(text, defaults))
            yield f"**{TITLES.get(title, title)}:**\n\n{items}\n"


def _items(text: str, defaults: Mapping[str, str]) -> Iterator[str]:
    """Take apart ``name: what it is``, where what it is may go on in lines further in."""
    for item in re.split(r"\n(?=\S)", text):
        name, _, said = item.partition(": ")
        default = f" Default: `{defaults[name]}`." if name in defaults else ""
        yield f"`{name}`: {_joined(said)}{default}"


def _joined(text: str) -> str:
    return " ".join(text.split())


def _sections(docstring: str | None) -> list[Section]:
    found = [Section("", [])]
    for line in (docstring or "").splitlines():
        if head := re.fullmatch(r"(Args|Returns|Raises|Attributes|Yields):", line):
            found.append(Section(head[1], []))
        else:
            found[-1].lines.append(re.sub(r"^ {4}", "", line) if found[-1].title else line)
    return found


def _plain(text: str) -> str:
    return text.replace("``", "`")


def _code(text: str) -> str:
    return f"```python\n{text}\n```\n"


def _definition(module: str, name: str) -> ast.AST:
    """Find the class or function, in the module itself or in the one that it imports it from."""
    for node in _statements(_tree(module).body):
        is_it = isinstance(node, ast.ClassDef | Function) and node.name == name
        if is_it and not _is_overload(node):
            return node
        if (made_of := _coroutine_of(node, name)) is not None:
            return _blocking(_definition(module, made_of), name)
        if isinstance(node, ast.ImportFrom) and name in {each.name for each in node.names}:
            return _definition(node.module or "", name)
    raise LookupError(f"{module} has no {name}")


def _coroutine_of(node: ast.AST, name: str) -> str | None:
    """Return of which coroutine a statement makes a function that blocks, of this name."""
    match node:
        case ast.AnnAssign(
            target=ast.Name(id=made),
            value=ast.Call(func=ast.Name(id="blocking"), args=[ast.Name(id=coroutine)]),
        ) if made == name:
            return coroutine
    return None


def _blocking(node: ast.AST, name: str) -> ast.FunctionDef:
    assert isinstance(node, ast.AsyncFunctionDef)
    return ast.FunctionDef(name, node.args, node.body, node.decorator_list, node.returns)


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a module, those under a condition included."""
    for node in body:
        yield from _statements(node.body) if isinstance(node, ast.If | ast.Try) else [node]


def _exported(module: str) -> list[str]:
    for node in _tree(module).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    raise LookupError(f"{module} has no __all__")


def _tree(module: str) -> ast.Module:
    path = ROOT.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text("utf-8"))


if __name__ == "__main__":
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(reference(), "utf-8")
