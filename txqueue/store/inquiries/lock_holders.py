"""Which sessions have locked the tables of a schema, for the error of a statement that waited."""

from __future__ import annotations

from typing import Final

from txqueue.errors import Refused
from txqueue.model.humanize import age
from txqueue.store.inquiries.inquiry import Inquiry, Question, Rows

__all__ = ["locked_out"]

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
