"""Inquiries: queries as generators that yield statements and receive their rows, for any kind of
caller; those that every caller begins with; several in one round trip.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from typing import Any, Final, TypeVar

from attrs import frozen

from txqueue.errors import Refused, SchemaMismatch
from txqueue.model.humanize import age
from txqueue.store.driver.side_by_side import PART, PLACE
from txqueue.store.schema.files import FIND, SchemaVersion, check_version

Rows = list[dict[str, Any]]
A = TypeVar("A")
Q = TypeVar("Q")
T = TypeVar("T")


@frozen
class Question:
    """A statement that only reads, and its parameters."""

    sql: str
    parameters: Sequence[object] = ()


Inquiry = Generator[Question, Rows, T]


def answer(questions: Generator[Q, A, T], ask: Callable[[Q], A]) -> T:
    """Ask what a generator yields, one by one, and return its result; it gets errors, too."""
    try:
        question = next(questions)
        while True:
            try:
                found = ask(question)
            except BaseException as error:
                question = questions.throw(error)
            else:
                question = questions.send(found)
    except StopIteration as end:
        result: T = end.value
        return result


async def aanswer(questions: Generator[Q, A, T], ask: Callable[[Q], Awaitable[A]]) -> T:
    """Do so over a connection that does not block.

    What the generator asks after an error cleans up: no cancellation interrupts it.
    """
    has_failed = False
    try:
        question = next(questions)
        while True:
            try:
                found = await (_unbroken(ask(question)) if has_failed else ask(question))
            except BaseException as error:
                has_failed = True
                question = questions.throw(error)
            else:
                question = questions.send(found)
    except StopIteration as end:
        result: T = end.value
        return result


def _unbroken(asked: Awaitable[A]) -> Awaitable[A]:
    # Programs that block need not import asyncio.
    from txqueue.system.clock import unbroken

    return unbroken(asked)


def ensure_version(schema: str) -> Inquiry[None]:
    """Check that this code can work with the schema.

    Raises:
        SchemaMismatch: When the schema is missing, older, or too new.
    """
    try:
        [row] = yield Question(FIND.format(schema=schema))
    except SchemaMismatch:
        # There is no such table.
        check_version(None, schema)
    else:
        check_version(SchemaVersion(row["number"], row["serves"]), schema)


def together(*inquiries: Inquiry[Any]) -> Inquiry[tuple[Any, ...]]:
    """Run inquiries side by side: the first questions of all are one statement, and so on.

    The statement's time limit is that of all of them together, so what may take long is better
    asked alone. A question must be one statement without settings before it.

    Returns:
        The results, in the order of the inquiries.
    """
    results: dict[int, Any] = {}
    answers: Iterable[tuple[int, Rows | None]] = [(place, None) for place in range(len(inquiries))]
    while asked := _questions(inquiries, answers, results):
        rows = yield _joined(list(asked.values()))
        answers = zip(asked, _parts(rows, len(asked)), strict=True)
    return tuple(results[place] for place in range(len(inquiries)))


def _questions(
    inquiries: Sequence[Inquiry[Any]],
    answers: Iterable[tuple[int, Rows | None]],
    results: dict[int, Any],
) -> dict[int, Question]:
    """Pass answers on and return the next questions, by place; note the results of the others."""
    asked: dict[int, Question] = {}
    for place, rows in answers:
        try:
            # A generator begins with None.
            asked[place] = inquiries[place].send(rows)  # type: ignore[arg-type]
        except StopIteration as end:
            results[place] = end.value
    return asked


def rows_of(question: Question) -> Inquiry[Rows]:
    """Ask one question."""
    return (yield question)


def ask(sql: str, parameters: Sequence[object] = ()) -> Inquiry[Rows]:
    """Ask the question of a statement and its parameters."""
    return rows_of(Question(sql, parameters))


def _joined(questions: Sequence[Question]) -> Question:
    """Return one statement: the rows of all questions side by side, by their numbers.

    Drivers return the result of only one statement of a message. Side by side, all columns keep
    their types; the text of the names says where the columns of a question begin.
    """
    parts = [
        f'(select row_number() over () as "{PLACE}", true as "{PART}{number}", its.*'
        f" from ({question.sql}) as its) as part{number}"
        for number, question in enumerate(questions)
    ]
    sources = " full join ".join(
        part if number == 0 else f'{part} using ("{PLACE}")' for number, part in enumerate(parts)
    )
    parameters = [value for question in questions for value in question.parameters]
    return Question(f"select * from {sources}", parameters)


def _parts(rows: Rows, count: int) -> list[Rows]:
    ordered = sorted(rows, key=lambda row: row[PLACE])
    return [
        [row[part] for row in ordered if row[part] is not None]
        for part in (f"{PART}{number}" for number in range(count))
    ]


# Of each session its strongest lock, the strongest first. Reads wait only for a session that locks
# a table altogether, or behind one that waits to do so. A prepared transaction has no session.
_HOLDERS: Final = """
    select pid, name, table_name, state, is_granted, seconds
      from (select distinct on (lock.pid, lock.virtualtransaction)
                   lock.pid, class.relname::text as table_name, lock.granted as is_granted,
                   coalesce(nullif(other.application_name, ''), other.usename::text) as name,
                   other.state, strength,
                   extract(epoch from clock_timestamp() - other.xact_start)::float as seconds
              from pg_locks as lock
              join pg_class as class on class.oid = lock.relation and class.relkind in ('r', 'p')
              left join pg_stat_activity as other on other.pid = lock.pid
             cross join lateral array_position(
                   '{AccessShareLock,RowShareLock,RowExclusiveLock,ShareUpdateExclusiveLock,'
                   'ShareLock,ShareRowExclusiveLock,ExclusiveLock,AccessExclusiveLock}', lock.mode)
                   as strength
             where lock.database = (select oid from pg_database where datname = current_database())
               and class.relnamespace = to_regnamespace(%s)
               and lock.pid is distinct from pg_backend_pid()
               and coalesce(clock_timestamp() - other.xact_start >= make_interval(secs => %s), true)
               and (strength > 1 or exists (
                    select from pg_locks as waiting
                     where waiting.relation = lock.relation and not waiting.granted
                       and waiting.mode = 'AccessExclusiveLock'))
             order by lock.pid, lock.virtualtransaction, strength desc, table_name) as session
     order by strength desc, seconds desc nulls last limit 3"""
_BOUND: Final = "set local statement_timeout = 2000; "
_NOTHING: Final = "nothing has changed"


def locked_out(schema: str, waited: float) -> Inquiry[Refused]:
    """Return the error for a statement that has waited too long for a lock.

    Args:
        schema: The name of the schema.
        waited: Seconds for which it has waited; a transaction that began later was not in the way.
    """
    rows = yield Question(_BOUND + _HOLDERS, (schema, waited))
    return _error(rows)


def _error(rows: Rows) -> Refused:
    what = "an open transaction of another session has locked what this needs"
    if not rows:
        return Refused(
            f"{what}; {_NOTHING}",
            "end that transaction, or try again once it has ended: txqueue explain names the"
            " session that has locked a job; pg_locks has all of them",
        )
    holders = "; ".join(map(_holder, rows))
    pids = [str(row["pid"]) for row in rows if row["pid"] is not None]
    end = (
        f"end it (select pg_terminate_backend({pids[0]}))"
        if pids
        else "end it (pg_prepared_xacts has its name)"
    )
    return Refused(f"{what}: {holders}; {_NOTHING}", f"{end}, or try again once it has ended")


def _holder(row: dict[str, object]) -> str:
    if row["pid"] is None:
        return f"a prepared transaction has locked the table {row['table_name']}"
    name = f" ({row['name']})" if row["name"] else ""
    does = "has locked" if row["is_granted"] else "waits to lock"
    seconds = row["seconds"]
    since = f", in a transaction open for {age(float(str(seconds)))}" if seconds is not None else ""
    idle = ", idle" if str(row["state"]).startswith("idle in transaction") else ""
    return f"session {row['pid']}{name} {does} the table {row['table_name']}{since}{idle}"
