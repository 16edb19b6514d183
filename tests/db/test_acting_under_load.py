"""Operators act while masters claim and complete: no deadlock, and no job is lost or stuck."""

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg2
import pytest

from tests.db.masters import Master, master

JOBS, GROUPS, ACTS = 600, 20, 60
FINAL = {"done", "cancelled"}


def work(dsn: str, name: str, is_over: Callable[[], bool]) -> None:
    """Claim and complete, as masters do, until all jobs have ended."""
    with master(dsn, name) as session:
        while not is_over() or session.states().keys() - FINAL:
            for chunk in session.claim(20, workers=4):
                session.complete(chunk)
            session.value("select cancels from txqueue.heartbeat(%s, 0)", session.incarnation)


def act(dsn: str, seed: int) -> None:
    """Do this and that to many jobs at a time, in no order."""
    chance = random.Random(seed)
    with closing(psycopg2.connect(dsn)) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        for _ in range(ACTS):
            ids = [chance.randint(1, JOBS) for _ in range(chance.randint(1, 40))]
            group = f"g{chance.randint(1, GROUPS)}"
            call, *parameters = chance.choice(
                [
                    ("cancel(%s::bigint[], 'ann')", ids[:5]),
                    ("restart(%s::bigint[], 'ann')", ids),
                    ("retry(%s::bigint[], 'ann')", ids),
                    ("set_priority(%s::bigint[], %s, 'ann')", ids, chance.randint(0, 9)),
                    ("pause('group', %s, 'ann')", group),
                    ("resume('group', %s, 'ann')", group),
                    ("set_limit('group', %s, 2, null, null, null, null, 'ann')", group),
                ]
            )
            cursor.execute(f"select * from txqueue.{call}", parameters)
        for number in range(1, GROUPS + 1):
            cursor.execute("select txqueue.resume('group', %s, 'ann')", (f"g{number}",))


@pytest.mark.parametrize("seed", [1, 2])
def test_operators_and_masters_at_once(node: Master, dsn: str, seed: int) -> None:
    """Two of each; in the end every job is done or cancelled, and no request is left."""
    node.enqueue(*({"group": f"g{number % GROUPS + 1}"} for number in range(JOBS)))
    with ThreadPoolExecutor(4) as threads:
        operators = [threads.submit(act, dsn, seed * 10 + number) for number in range(2)]
        are_over = lambda: all(each.done() for each in operators)  # noqa: E731 - one line
        masters = [threads.submit(work, dsn, f"master {n}", are_over) for n in range(2)]
        for each in (*operators, *masters):
            each.result(120)
    assert node.states().keys() <= FINAL
    assert sum(node.states().values()) == JOBS
    node.value("select txqueue.heartbeat(%s, 0)", node.incarnation)
    # An act that changes nothing is not recorded.
    assert node.value("select count(*) from txqueue.action") >= ACTS
