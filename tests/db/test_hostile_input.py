"""What a client with the rights to enqueue may write: nothing that a node could not cope with."""

from __future__ import annotations

import json

import psycopg2
import pytest

from tests.db.masters import Master

HOSTILE = [
    ('{"timeout": 1e400}', "timeout is not within"),
    ('{"timeout": 0}', "timeout is not within"),
    ('{"timeout": "30"}', "timeout is not within"),
    ('{"timeout": null}', "timeout is not within"),
    ('{"attempts": 0}', "attempts is not a whole number"),
    ('{"attempts": 1.5}', "attempts is not a whole number"),
    ('{"attempts": 32768}', "attempts is not a whole number"),
    ('{"attempts": true}', "attempts is not a whole number"),
    ('{"expires": 1}', "expires is neither true nor false"),
    ('{"redacted": "no"}', "redacted is neither true nor false"),
    ('{"parents": {"done": 5}}', "are not options that can be given"),
    ('{"left": "x"}', "are not options that can be given"),
    ('{"after": [1]}', "are not options that can be given"),
    ("[]", "options is not a JSON object"),
    ('"x"', "options is not a JSON object"),
    (json.dumps({"note": "x" * 70_000}), "longer than 65536 bytes"),
]


@pytest.mark.parametrize(("options", "said"), HOSTILE, ids=[each[:30] for each, _ in HOSTILE])
def test_an_option_that_no_worker_could_obey_is_refused(
    node: Master, options: str, said: str
) -> None:
    """One at a time, in bulk, and assigned at once."""
    assigned = (
        "select job_id from txqueue.enqueue_assigned"
        f"({node.node_id}, {node.incarnation}, 'test.kind', '{{}}', options => %s)"
    )
    for sql in ("select txqueue.enqueue('test.kind', '{}', options => %s)", assigned):
        with pytest.raises(psycopg2.Error, match=said):
            node.value(sql, options)
    with pytest.raises(psycopg2.Error, match=said):
        node.enqueue({"options": json.loads(options.replace("1e400", "1" + "0" * 400))})
    assert node.states() == {}


def test_the_payload_limit_counts_text_not_what_is_stored(node: Master) -> None:
    """A payload that compresses well, and one whose text is longer than its parts."""
    node.cursor.execute("create table public.app (payload jsonb)")
    node.cursor.execute(
        "insert into public.app values (jsonb_build_object('a', repeat('x', 1100000))),"
        " (jsonb_build_object('a', repeat(e'\\x01', 300000)))"
    )
    assert node.value("select max(pg_column_size(payload)) from public.app") < 1_048_576
    with pytest.raises(psycopg2.Error, match="has 1100009 bytes, more than the limit"):
        node.value("select txqueue.enqueue('test.kind', payload) from public.app limit 1")
    with pytest.raises(psycopg2.Error, match="bytes, more than the limit"):
        node.value("select txqueue.enqueue('test.kind', payload) from public.app offset 1")


def test_a_number_that_python_does_not_read_is_refused(node: Master) -> None:
    """A string of as many digits is none."""
    long = "9" * 4301
    with pytest.raises(psycopg2.Error, match="a number of more than 4300 digits"):
        node.value(f"""select txqueue.enqueue('test.kind', '{{"n": {long}}}')""")
    with pytest.raises(psycopg2.Error, match="a number of more than 4300 digits"):
        node.value("""select txqueue.enqueue('test.kind', '{"a": [1, {"n": 1e5000}]}')""")
    node.value(f"""select txqueue.enqueue('test.kind', '{{"n": ", {long}", "m": 1}}')""")


def test_a_claim_takes_no_more_text_than_fits(node: Master) -> None:
    """Payloads that are written out much longer than they are stored come a few at a time."""
    node.enqueue(*[{"payload": {"a": "\x01" * 170_000}} for _ in range(15)])
    seen = 0
    while seen < 15:
        claimed = node.take()
        assert claimed.ids
        assert sum(len(str(chunk.jobs)) for chunk in claimed.chunks) < 6_000_000
        seen += len(claimed.ids)


def test_options_count_towards_what_a_claim_takes(node: Master) -> None:
    """Of a thousand jobs with long options a claim takes some."""
    node.enqueue(*[{"options": {"created_by": "x" * 60_000}} for _ in range(200)])
    assert 0 < len(node.claimed_ids()) < 100
