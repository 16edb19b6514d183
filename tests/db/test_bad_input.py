"""What cannot be enqueued: refused with a remedy, and nothing of its transaction is written."""

import json
from datetime import UTC, datetime
from typing import Any

import psycopg2
import pytest

from tests.db.letters import FAR, Note, opened
from tests.db.masters import Master
from txqueue import Transaction
from txqueue.errors import InvalidWork, Refused


@pytest.mark.parametrize("place", [0, 999, 1000, 1999, 2500])
async def test_one_wrong_among_many_leaves_nothing(node: Master, dsn: str, place: int) -> None:
    """Whichever of the thousands it is in; the connection is fit for the next."""
    works = [Note() for _ in range(2600)]
    works[place].text = 7  # type: ignore[assignment]  # what the test is about
    async with opened(dsn, connections=1) as queue:
        with pytest.raises(InvalidWork, match=r"expected str @ \$\.text"):
            await queue.enqueue_many(works)
        assert {} == node.states()
        await queue.enqueue(Note())
        assert 1 == node.value(
            "select count(*) from pg_stat_activity where application_name = 'txqueue client'"
        )


@pytest.mark.parametrize(
    ("options", "what", "remedy"),
    [
        ({"not_before": datetime(2999, 1, 1)}, "has no time zone", "datetime.now"),
        ({"not_after": datetime(2999, 1, 1)}, "has no time zone", "datetime.now"),
        ({"priority": 10}, "priority 10 is not within 0 to 9", "7 for high"),
        ({"weight": 0}, "weight 0 is not within 1 to 1000000", "1 for an ordinary job"),
        ({"weight": 1_000_001}, "weight 1000001 is not within", "1 for an ordinary job"),
        ({"weight": 2**40}, "integer out of range", "smaller numbers"),
        ({"queue": ""}, "a queue name must have 1 to 200 characters", "a shorter name"),
        ({"queue": "a\0b"}, "queue has a NUL character", "leave NUL characters out"),
        ({"group": "g" * 1001}, "a group must have 1 to 1000 characters", "a shorter key"),
        ({"not_before": FAR, "not_after": FAR}, "is not later than not_before", "after not_before"),
        ({"not_after": datetime(2000, 1, 1, tzinfo=UTC)}, "is not later than", "after not_before"),
        ({"prio": 3}, "enqueue has no option prio", "priority"),
    ],
    ids=str,
)
async def test_a_wrong_option_is_refused(
    node: Master, dsn: str, options: Any, what: str, remedy: str
) -> None:
    """The error says what is wrong and how to fix it, and nothing of the transaction is written."""
    async with opened(dsn) as queue:
        with pytest.raises((InvalidWork, Refused)) as caught:
            await queue.run_interaction(_two, options)
    assert what in caught.value.what
    assert remedy in caught.value.remedy
    assert {} == node.states()


async def _two(txn: Transaction, options: Any) -> None:
    await txn.enqueue(Note("right"))
    await txn.enqueue(Note("wrong"), **options)


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "x" * 1_048_600], ids=["nul", "half", "long"])
async def test_a_payload_that_cannot_be_stored_is_refused(
    node: Master, dsn: str, text: str
) -> None:
    """With a remedy, and without showing it."""
    async with opened(dsn) as queue:
        with pytest.raises(Refused) as caught:
            await queue.enqueue(Note("s3cret" + text))
    assert caught.value.remedy
    assert "s3cret" not in str(caught.value)
    assert {} == node.states()


def test_the_payload_limit_is_a_setting(node: Master) -> None:
    """Up to it, and not a byte more, one at a time and in bulk."""
    fits, exceeds = {"a": "x" * 300}, {"a": "x" * 301}
    size = len(json.dumps(fits))
    node.cursor.execute("update txqueue.setting set payload_limit = %s", (size,))
    node.enqueue({"payload": fits})
    node.value("select txqueue.enqueue('any.type', %s)", json.dumps(fits))
    refused = pytest.raises(
        psycopg2.Error, match=f"has {size + 1} bytes, more than the limit of {size}"
    )
    with refused:
        node.enqueue({"payload": exceeds})
    with refused:
        node.value("select txqueue.enqueue('any.type', %s)", json.dumps(exceeds))
