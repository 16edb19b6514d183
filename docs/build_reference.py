"""Writes the reference of the Python API from the package's docstrings, without importing it.

    python docs/build_reference.py

A test holds the file against what this makes.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from inspect import cleandoc
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

__all__ = ["TARGET", "reference"]

ROOT: Final = Path(__file__).resolve().parent.parent
TARGET: Final = ROOT / "docs" / "reference" / "python-api.md"


class Page(NamedTuple):
    """A page of the reference.

    Attributes:
        heading: Its heading on the first page, by which other pages link to it.
        title: Its title.
        module: What its names are imported from.
        listed: The names.
    """

    heading: str
    title: str
    module: str
    listed: str

    @property
    def names(self) -> list[str]:
        """Its names."""
        return self.listed.split()

    @property
    def file(self) -> str:
        """Its place beside the first page."""
        return f"python-api/{self.heading.lower().replace(' ', '-')}.md"


# What stands where. Every name that `txqueue` exports must be here, and those of the modules that
# `reference` lists, or nothing is written.
PAGES: Final = (
    Page(
        "WorkQueue",
        "Enqueue work, and wait for it",
        "txqueue",
        "WorkQueue Transaction Batch enqueue Membership",
    ),
    Page("EnqueueOptions", "Options of enqueue", "txqueue", "EnqueueOptions"),
    Page(
        "WorkItem", "Define work", "txqueue", "WorkItem Key Priority Runtime UniqueMode Retry Rate"
    ),
    Page("Functions as work", "Functions as work", "txqueue", "task Task middleware"),
    Page(
        "RunningJob",
        "Inside a handler",
        "txqueue",
        "RunningJob ThreadJob Parents Snooze Throttled Discard Fail Next"
        " StepTransaction StepCursor",
    ),
    Page("Jobs", "Jobs, and runs that failed", "txqueue", "Job State Attempt"),
    Page(
        "Recurring work",
        "Recurring work",
        "txqueue",
        "Every Cron Cooldown CatchUp Exists Schedules ScheduleRun",
    ),
    Page("Worksets", "Worksets", "txqueue", "WorksetItem ExistingTable WorksetStatus RunningPart"),
    Page(
        "Failures as they happen",
        "Failures as they happen",
        "txqueue",
        "on_failure FailedAttempt",
    ),
    Page("Sentry", "Sentry", "txqueue.sentry", "install"),
    Page("Asyncio", "Without Twisted: asyncio", "txqueue.aio", "Queue AsyncTransaction"),
    Page(
        "Threads and scripts",
        "Without Twisted: threads and scripts",
        "txqueue.sync",
        "Queue BlockingTransaction",
    ),
    Page(
        "Other drivers",
        "Enqueue with other drivers",
        "txqueue.adapters",
        "statement statements error_of BlockingBatch",
    ),
    Page(
        "Tasks of Django",
        "Tasks of Django",
        "txqueue.django",
        "TxqueueBackend policy work RunningContext TaskCancelled AttemptFailed OtherTransaction",
    ),
    Page(
        "Test jobs",
        "Test jobs",
        "txqueue.testing",
        "perform aperform Outcome assert_enqueued aassert_enqueued refute_enqueued "
        "arefute_enqueued all_enqueued aall_enqueued capture_enqueued Capture drain adrain clear "
        "aclear connected",
    ),
    Page("Admin", "Operate from a program", "txqueue.admin", "Admin JobsPage Cancelled"),
    Page(
        "Errors",
        "Errors",
        "txqueue.errors",
        "TxqueueError InvalidSchedule InvalidWork UnreadablePayload UnknownWorkType Refused "
        "NotPermitted QueueFull Duplicate TransactionMisused JobNotFound KeyUnavailable JobFailed "
        "WaitTimeout TimedOut Suspended TokenLost DatabaseUnavailable SchemaMismatch "
        "ConfigurationError EmbeddedUnavailable NodeUnavailable AdminRefused ArchiveUnavailable",
    ),
    Page("An embedded server", "An embedded server", "txqueue.embedded", "EmbeddedServer"),
)
# Constructors that users do not call: others make these for them.
MADE_BY_OTHERS: Final = frozenset(
    {
        *("Admin", "AsyncTransaction", "Attempt", "Batch", "BlockingBatch"),
        *("BlockingTransaction", "Cancelled", "Capture", "FailedAttempt", "Job"),
        *("JobsPage", "Membership", "Outcome", "Queue", "RunningJob", "RunningPart"),
        *("ScheduleRun", "Schedules", "StepCursor", "StepTransaction", "Task"),
        *("ThreadJob", "Transaction", "WorkQueue"),
    }
)
# Of a class that the library itself works with, users have only these members.
SHOWN: Final = MappingProxyType(
    {
        "BlockingTransaction": "connection execute enqueue enqueue_many signal batch",
        "AsyncTransaction": "connection execute enqueue enqueue_many signal batch",
        "Batch": "ids callback_id enqueue enqueue_many",
        "BlockingBatch": "ids callback_id enqueue enqueue_many",
        "Cooldown": "seconds jitter since until times",
        "Cron": "expression tz jitter catch_up overlap until times",
        "EmbeddedServer": "start stop",
        "Every": "seconds jitter catch_up overlap until times",
        "Job": "id work_type queue state priority weight attempt deaths group tenant waiting_for"
        " rank not_before not_after enqueued_at assigned_at started_at finished_at node_id payload"
        " result error progress attempts updated_at",
        "JobFailed": "",
        "Membership": "credit delivered",
        "Retry": "attempts first factor linear longest jitter fatal",
        "RunningJob": "id attempt weight work_type cost cancelled_by due tags is_cancelled beat"
        " progress transaction parents then coalesce step step_transaction wait_for sleep call"
        " cursor",
        "Rate": "jobs per burst",
        "RunningPart": "job items attempt beat fail fail_all transaction",
        "Schedules": "pause resume remove run_now runs",
        "StepTransaction": "is_done result txn",
        "ThreadJob": "step cursor",
        "Transaction": "result execute enqueue enqueue_many signal fill batch",
        "WorksetItem": "workset size batch bound source workset_tenant perform_part",
    }
)
WIDTH: Final = 88
OWN: Final = "the work type's own"
TITLES: Final = {"Args": "Arguments"}

# Of what programs use most; a test holds the arguments against the signatures.
EXAMPLES: Final = MappingProxyType(
    {
        "WorkQueue.connect": 'queue = await WorkQueue.connect("postgresql:///shop")',
        "WorkQueue.transaction": """async with queue.transaction() as txn:
    await txn.execute("insert into orders (item) values (%s)", ["tea"])
    job_id = await txn.enqueue(SendReceipt(7))""",
        "WorkQueue.wait": "value = await queue.wait(job_id, timeout=30)",
        "Transaction.enqueue": 'await txn.enqueue(SendReceipt(7), priority=7, unique="order 7")',
        "Retry": "retry = Retry(attempts=5, first=10, fatal=(ValueError,))",
        "task": """@task(queue="mail", retry=Retry(attempts=5))
def send_receipt(order_id: int) -> None: ...""",
        "RunningJob.transaction": '''async with job.transaction() as txn:
    await txn.execute("update account set balance = balance + 1")
    txn.result = "booked"''',
        "RunningJob.step": 'charge = await job.step("charge", charge_card, order_id)',
        "Cron": 'schedule = Cron("0 3 * * *", tz="Europe/Berlin")',
        "drain": "runs = drain(until=timedelta(hours=1), raise_errors=False)",
    }
)

# The Blocking classes are made of those of asyncio, by docs/build_sync.py.
TWINS: Final = MappingProxyType({"txqueue.sync": "txqueue.aio"})
FOREIGN: Final = frozenset({"Enum", "IntEnum", "StrEnum", "TypedDict", "TaskContext"})
MOST: Final = 6
"""Names of a page that the first page has."""
LEAST: Final = 7
"""Words from which on a text is not repeated, but referred to."""

HEAD: Final = """\
# The Python API

<!-- Made by docs/build_reference.py from the docstrings. Edit those, then run it again. -->

What programs import, by what they do with it. Coroutines of `txqueue` itself are Twisted's: await
them inside the reactor.

## The pages
"""

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


class Section(NamedTuple):
    """A part of a docstring: ``Args:`` and the like, or plain text under an empty title."""

    title: str
    lines: list[str]


def reference() -> dict[str, str]:
    """Return the pages of the reference, by their place beside the first one.

    Raises:
        LookupError: When the package exports a name that no page has.
    """
    listed = {name for page in PAGES for name in page.names}
    modules = ("txqueue", "txqueue.django", "txqueue.errors", "txqueue.testing")
    exported = {name for module in modules for name in _exported(module)}
    if missing := exported - listed:
        raise LookupError(f"no page of docs/build_reference.py has {', '.join(sorted(missing))}")
    told: dict[tuple[str, str], str] = {}
    first = "\n".join([HEAD, *map(_summary, PAGES)])
    written = {page.file: _told_once(page.file, "\n".join(_page(page)), told) for page in PAGES}
    return {TARGET.name: first, **written}


def _summary(page: Page) -> str:
    """Return how the first page describes another one."""
    names = [f"`{name}`" for name in page.names if not _is_coroutine_of(name, page)]
    listed = ", ".join(names[:MOST]) + ", and more" * (len(names) > MOST)
    return f"### {page.heading}\n\n[{page.title}]({page.file}): {listed}.\n"


def _is_coroutine_of(name: str, page: Page) -> bool:
    """Return whether a function is another one for coroutines, such as `aperform`."""
    return name.startswith("a") and name[1:] in page.names


def _page(page: Page) -> Iterator[str]:
    yield f"# {page.title}\n\nThese names are imported from `{page.module}`.\n"
    nodes = {name: _definition(page.module, name) for name in page.names}
    if page.module in TWINS:
        for name, node in nodes.items():
            yield from _twin(name, node)
        return
    plain = {name: node for name, node in nodes.items() if _is_plain(node)}
    for name, node in nodes.items():
        if name not in plain and not _is_coroutine_of(name, page):
            yield from _entry(name, node)
            if f"a{name}" in page.names:
                yield f"In a coroutine: `await a{name}(...)`.\n"
    if plain:
        yield "\n".join(["| class | base | |", "|---|---|---|", *_rows(plain)]) + "\n"


def _is_plain(node: ast.AST) -> bool:
    """Return whether a class needs one sentence: it has a base, and nothing of its own."""
    return (
        isinstance(node, ast.ClassDef)
        and bool(node.bases)
        and not any(_is_shown(node.name, each.name) for each in _functions(node))
        and not [each for each in _sections(ast.get_docstring(node)) if _shown(node.name, each)][1:]
        and not list(_fields(node))
    )


def _rows(plain: Mapping[str, ast.AST]) -> Iterator[str]:
    for name, node in plain.items():
        assert isinstance(node, ast.ClassDef)
        text = _joined(_plain(ast.get_docstring(node) or "").partition("\n\nAttributes")[0])
        yield f"| `{name}` | `{', '.join(map(ast.unparse, node.bases))}` | {text} |"


def _twin(name: str, node: ast.AST) -> Iterator[str]:
    """Yield the signatures of a class that is another one without its coroutines."""
    assert isinstance(node, ast.ClassDef)
    of = name.replace("Blocking", "Async")
    yield f"## {name}\n"
    yield f"As [`{of}` of asyncio](asyncio.md#{of.lower()}), but its methods block the thread:\n"
    shown = [each for each in _methods(node) if _is_shown(name, each.name)]
    yield _code("\n".join(_signature(each, is_method=True) for each in shown))


def _told_once(file: str, text: str, told: dict[tuple[str, str], str]) -> str:
    """Let items refer to equal ones: of a method of the same name, or of an entry of the page."""
    entry = ""

    def reference_of(said: str) -> str | None:
        place = f"[`{entry}`]({Path(file).name}#{entry.replace('.', '').lower()})"
        for key in ((entry.rpartition(".")[2], said), (file, said)):
            if (first := told.setdefault(key, place)) != place and len(said.split()) >= LEAST:
                return first.replace(f"({Path(file).name}", "(")
        return None

    def row(said: re.Match[str]) -> str:
        first = reference_of(said[1])
        return f"as for {first}." if first else said[1]

    def shorter(found: re.Match[str]) -> str:
        nonlocal entry
        if found["entry"]:
            entry = found["entry"]
            return found[0]
        if found["returned"]:
            first = reference_of(found["returned"])
            return f"**Returns:** as for {first}.\n" if first else found[0]
        if found["rows"]:
            return re.sub(r"(?<= \| )([^|]+)(?= \|$)", row, found["rows"], flags=re.MULTILINE)
        kept: list[str] = []
        others: dict[str, list[str]] = {}
        for name, said in re.findall(r"^- (\S+): (.+)$", found["items"], re.MULTILINE):
            if first := reference_of(said):
                others.setdefault(first, []).append(name)
            else:
                kept.append(f"- {name}: {said}\n")
        merged = (f"- {', '.join(names)}: as for {first}.\n" for first, names in others.items())
        return "".join([*kept, *merged])

    part = "|".join(
        [
            r"^##+ (?P<entry>.+)$",
            r"^\*\*Returns:\*\* (?P<returned>.+)\n",
            r"(?P<rows>(?:^\| `\w+` \| .*\n)+)",
            r"(?P<items>(?:^- \S+: .+\n)+)",
        ]
    )
    return re.sub(part, shorter, text, flags=re.MULTILINE).rstrip() + "\n"


def _is_shown(name: str, member: str) -> bool:
    """Return whether users have a member of a class."""
    return not member.startswith("_") and (name not in SHOWN or member in SHOWN[name].split())


def _shown(name: str, section: Section) -> Section | None:
    """Return a part of the docstring of a class with the attributes that users have."""
    if section.title != "Attributes":
        return section
    parts = re.split(r"\n(?=\S)", "\n".join(section.lines).strip())
    kept = [each for each in parts if _is_shown(name, each.partition(":")[0])]
    return Section(section.title, kept) if kept else None


def _methods(node: ast.ClassDef) -> Iterator[Function]:
    """Yield the methods of a class."""
    for function in _functions(node):
        if not any(ast.unparse(each).endswith(".setter") for each in function.decorator_list):
            yield function


def _entry(name: str, node: ast.AST) -> Iterator[str]:
    yield f"## {name}\n"
    if isinstance(node, ast.ClassDef):
        yield from _class(node)
    elif isinstance(node, Function):
        yield from _function(node, is_method=False)


def _class(node: ast.ClassDef) -> Iterator[str]:
    initialiser = next((each for each in _functions(node) if each.name == "__init__"), None)
    if initialiser is not None and node.name not in MADE_BY_OTHERS:
        has_table = "Args:" in (ast.get_docstring(initialiser) or "")
        made_by = _without_types(initialiser) if has_table else initialiser
        yield _code(_call(f"class {node.name}", _parameters(made_by, is_method=True), ""))
    elif bases := ", ".join(filter(_is_public, map(ast.unparse, node.bases))):
        yield _code(f"class {node.name}({bases})")
    found = (_shown(node.name, each) for each in _sections(ast.get_docstring(node)))
    sections = [each for each in found if each is not None]
    if node.name in MADE_BY_OTHERS:
        sections = [each for each in sections if each.title != "Args"]
    defaults = {} if node.name in MADE_BY_OTHERS else dict(_defaults(node))
    yield from _rendered(sections, defaults, kinds=dict(_kinds(node)))
    if initialiser is not None and node.name not in MADE_BY_OTHERS:
        arguments = _sections(ast.get_docstring(initialiser))[1:]
        yield from _rendered(arguments, types=_types(initialiser))
    if example := EXAMPLES.get(node.name):
        yield _code(example)
    if not any(section.title == "Attributes" for section in sections):
        yield from _fields(node)
    shown = [each for each in _methods(node) if _is_shown(node.name, each.name)]
    if properties := "\n".join(_property(each) for each in shown if _is_property(each)):
        yield f"**Properties:**\n\n{properties}\n"
    for function in shown:
        if not _is_property(function):
            yield f"### {node.name}.{function.name}\n"
            yield from _function(function, is_method=True, of=node.name)


def _is_property(node: Function) -> bool:
    return "property" in map(ast.unparse, node.decorator_list)


def _property(node: Function) -> str:
    said, *errors = _sections(ast.get_docstring(node))
    raised = [f"Raises {_joined(' '.join(each.lines))}" for each in errors]
    text = _plain(_joined(" ".join([*said.lines, *raised])))
    return f"- `{_signature(node, is_method=True)}`: {text}"


def _is_public(base: str) -> bool:
    """Return whether readers have use for the name of a base class."""
    own = {name for page in PAGES for name in page.names}
    return base in own or hasattr(builtins, base.partition("[")[0]) or base in FOREIGN


def _functions(node: ast.ClassDef | ast.If) -> Iterator[Function]:
    """Find the functions of a class, those of one condition included, without overloads."""
    for each in node.body:
        if isinstance(each, ast.If):
            yield from _functions(each)
        elif isinstance(each, Function) and not _is_overload(each):
            yield each


def _is_overload(node: ast.stmt) -> bool:
    return "overload" in map(ast.unparse, getattr(node, "decorator_list", ()))


def _function(node: Function, *, is_method: bool, of: str = "") -> Iterator[str]:
    sections = _sections(ast.get_docstring(node))
    types = _types(node) if any(each.title == "Args" for each in sections) else {}
    yield _code(_signature(_without_types(node) if types else node, is_method=is_method))
    # The signature says that already.
    said = r"An? (?:asynchronous )?context manager whose value is an? ``\w+``\."
    yield from _rendered(
        (each for each in sections if not re.fullmatch(said, _joined(" ".join(each.lines)))),
        types=types,
    )
    if example := EXAMPLES.get(f"{of}.{node.name}" if of else node.name):
        yield _code(example)


def _types(node: Function) -> dict[str, str]:
    """Return the annotations of the parameters of a function, by their names."""
    arguments = (each for each in ast.walk(node.args) if isinstance(each, ast.arg))
    return {
        each.arg: re.sub(r"Unpack\[(\w+)\]", r"\1", ast.unparse(each.annotation))
        for each in arguments
        if each.annotation is not None
    }


def _without_types(node: Function) -> Function:
    """Return a function whose parameters have no annotations: a table has them."""
    bare = deepcopy(node)
    for each in ast.walk(bare.args):
        if isinstance(each, ast.arg):
            each.annotation = None
    return bare


def _signature(node: Function, *, is_method: bool) -> str:
    decorators = {ast.unparse(each) for each in node.decorator_list}
    returns = ast.unparse(node.returns) if node.returns is not None else "None"
    parameters = _parameters(node, is_method=is_method and "staticmethod" not in decorators)
    given = returns.partition("[")[2].removesuffix("]")
    name = node.name
    if "property" in decorators:
        return f"{name}: {returns}"
    if "asynccontextmanager" in decorators or returns.startswith("AbstractAsyncContextManager["):
        return _call(f"async with {name}", parameters, f" as {given}")
    if "contextmanager" in decorators or returns.startswith("AbstractContextManager["):
        return _call(f"with {name}", parameters, f" as {given}")
    wait = "await " if isinstance(node, ast.AsyncFunctionDef) else ""
    return _call(wait + name, parameters, "" if returns == "None" else f" -> {returns}")


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
    kind = re.sub(r"Unpack\[(\w+)\]", r"\1", kind)
    equals = " = " if kind else "="
    return given.arg + kind + (f"{equals}{ast.unparse(default)}" if default is not None else "")


def _call(start: str, parts: Iterable[str], end: str) -> str:
    """Put a call into one line, or into a line for each part if it is long."""
    line = f"{start}({', '.join(parts)}){end}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{start}(", *(f"    {part}," for part in parts), f"){end}"])


def _fields(node: ast.ClassDef) -> Iterator[str]:
    """List the fields of a class of values, or the members of an enumeration."""
    lines = []
    for each, after in zip(node.body, [*node.body[1:], None], strict=True):
        names = [*getattr(each, "targets", ()), getattr(each, "target", None)]
        if not names[0] or not _is_shown(node.name, ast.unparse(names[0])):
            continue
        if isinstance(each, ast.AnnAssign):
            lines.append(_option(each) or f"- `{ast.unparse(each)}`")
        else:
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
            return f"- `{name}`: {said}" + (f" Default: {default}." if default != OWN else "")
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


def _kinds(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """Find the types of what a class declares for its kind, with links to entries of its page."""
    own = next((page.names for page in PAGES if node.name in page.names), [])
    for each in node.body:
        if kind := re.fullmatch(r"(\w+): ClassVar\[(.*?)\](?: = .*)?", ast.unparse(each)):
            told = next((name for name in re.findall(r"\w+", kind[2]) if name in own), None)
            yield kind[1], f"[`{kind[2]}`](#{told.lower()})" if told else f"`{kind[2]}`"


def _literal(node: ast.AST | None) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return str(node.value.value)
    return ""


def _rendered(
    sections: Iterable[Section],
    defaults: Mapping[str, str] = MappingProxyType({}),
    types: Mapping[str, str] = MappingProxyType({}),
    kinds: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[str]:
    for title, lines in sections:
        text = _plain("\n".join(lines).strip("\n"))
        if not title:
            yield text + "\n"
        elif title in ("Returns", "Yields"):
            yield f"**{title}:** {_joined(text)}\n"
        elif title == "Args" and types:
            yield "\n".join(["| argument | type | |", "|---|---|---|", *_typed(text, types)]) + "\n"
        else:
            if title == "Raises":
                text = re.sub(r"(?<=: )When (?=\w)|(?<=, or )when ", "", text)
            items = "\n".join(f"- {item}" for item in _items(text, defaults, kinds))
            yield f"**{TITLES.get(title, title)}:**\n\n{items}\n"


def _typed(text: str, types: Mapping[str, str]) -> Iterator[str]:
    """Yield a row for each argument."""
    for item in re.split(r"\n(?=\S)", text):
        name, _, said = item.partition(": ")
        kind = types.get(name.lstrip("*"), "").replace("|", "\\|")
        yield f"| `{name}` | {f'`{kind}`' if kind else ''} | {_joined(said)} |"


def _items(text: str, defaults: Mapping[str, str], kinds: Mapping[str, str]) -> Iterator[str]:
    """Take apart ``name: what it is``, where what it is may go on in lines further in."""
    for item in re.split(r"\n(?=\S)", text):
        name, _, said = item.partition(": ")
        default = f" Default: `{defaults[name]}`." if name in defaults else ""
        kind = f" ({kinds[name]})" if name in kinds else ""
        yield f"`{name}`{kind}: {_joined(said)}{default}"


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
    (TARGET.parent / "python-api").mkdir(parents=True, exist_ok=True)
    for name, page in reference().items():
        (TARGET.parent / name).write_text(page, "utf-8")
