"""Failures by kind: what errors have in common, counted, run again and postponed all at once."""

import json
from collections.abc import Callable

import pytest

from tests.db.masters import Master
from txqueue.model.assignment import SettledJob, framed
from txqueue.store.node.outcomes import outcomes_text, outcomes_texts

TRACE = """{said}

Traceback (most recent call last):
  File "/srv/{release}/txqueue/worker/performer.py", line {line}, in _begin
    value = kind.begin(work, job)
  File "/srv/{release}/shop/mail.py", line {line}, in {function}
    raise ValueError
{said}"""


TRACEBACK = """Traceback (most recent call last):
  File "/srv/r1/shop/mail.py", line 7, in {}
    raise ValueError
"""
SAME_KIND = "select txqueue.fingerprint(%s) = txqueue.fingerprint(txqueue.error_shape(%s))"
POSTPONE = "postpone_failures(%s, 'ann', 60, null, 1)"


def error(said: str, *, release: str = "r1", line: int = 7, function: str = "perform") -> str:
    """What the worker keeps of an error."""
    return TRACE.format(said=said, release=release, line=line, function=function)


def failed(node: Master, *errors: str, outcome: str = "failed") -> list[int]:
    """Have a job fail with each error; returns their numbers."""
    ids = []
    for text in errors:
        (job_id,) = node.enqueue({})
        (chunk,) = node.claim()
        assert node.settle(chunk, outcome, error=text, delay=3600) == [job_id]
        ids.append(job_id)
    return ids


def kinds(node: Master) -> list[tuple[int, int, str]]:
    """Return how many failed and how many wait of each kind, with what they say."""
    node.cursor.execute("select failed, waiting, error from txqueue.failures order by example")
    return node.cursor.fetchall()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ValueError: row 17 is bad", "ValueError: row 4242 is bad"),
        ("KeyError: 'ada'", "KeyError: 'grace'"),
        ('DoesNotExist: no "a b" here', 'DoesNotExist: no "c" here'),
        (
            "Gone: 9f3d0e1c-5c0e-4b6c-9a57-0e8f6f1f7a10",
            "Gone: 11111111-aaaa-bbbb-cccc-000000000000",
        ),
        ("Gone: object at 0x7f12ab", "Gone: object at 0x8899ff"),
        ("Refused: can't reach 'a' in 1.5 s", "Refused: can't reach 'b' in 20.25 s"),
        ("At 2026-11-22 01:02:03", "At 2025-01-02 11:12:13"),
        ("Bad commit 9f3d0e1 of main", "Bad commit 1234567 of main"),
        ("No order 01JDF7Q2ZC8M4V5W6X7Y8Z9ABC", "No order 01JDG0000000000000000AAAAA"),
        ("Token dGhpcyBpcyBhIHRlc3Qx= expired", "Token YW5vdGhlciB0b2tlbjIy0 expired"),
        ("No route to fe80::1ff:fe23:4567:890a", "No route to 2001:db8::1"),
        ("Missing /tmp/tmpab_xyz/in.csv", "Missing /tmp/tmpq1w2e3/other.csv"),
        ("Missing /srv/shop/in.csv", "Missing /srv/shop/ann/out.csv"),
        ("Missing /srv/shop/in.csv: no such file", "Missing /home/ann/x: no such file"),
        ("Missing ~/in.csv", "Missing ../data/in.csv"),
        ("Missing C:\\Users\\ann\\x.txt", "Missing D:\\data\\bob.csv"),
        ("Missing uploads/ann/photo.png", "Missing uploads/bob/a/b.jpeg"),
        ("404 for https://shop.test/users/ann?a=b", "404 for https://bob.test/"),
        ("Gone: postgresql://ann:x@db/shop, retry", "Gone: postgresql://bob@other/x, retry"),
        ("No mailbox ann@shop.test", "No mailbox bob.b+x@mail.example.co.uk"),
        (
            "Expired eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln-_A",
            "Expired eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.Zm9vYmFy",
        ),
        ("May not read arn:aws:s3:::ann/in", "May not read arn:aws:s3:eu-west-1:123456789012:x"),
        ("Since 2026-11-27T11:44:00Z", "Since 2025-01-02T11:12:13.123456+01:00"),
        ("Since Fri, 27 Nov 2026 11:44:00 GMT", "Since Mon, 02 Mar 2026 01:02:03 +0100"),
        ("Since Friday, 27-Nov-26 11:44:00 GMT", "Since Sunday, 01-Mar-26 11:44:00 GMT"),
        ("Since Fri Nov 27 11:44:00 2026", "Since Mon Mar  2 11:44:00 CET 2026"),
        ("Unknown rows [1, 2, 3]", "Unknown rows [7]"),
        ("Unknown rows ['a', 'b']", "Unknown rows ['c', 'd', 'e']"),
        ("Unknown rows {'a': 1, 'b': 2}", "Unknown rows {'c': 3}"),
        ("Unknown rows [UUID('a'), UUID('b')]", "Unknown rows [UUID('c')]"),
        ("Unknown rows [(1, 2), (3, 4)]", "Unknown rows [(5, 6)]"),
        ("api.Error404: page 17", "api.Error404: page 42"),
        ("Key (email)=(ann) already exists.", "Key (email)=(O'Neil (jr)) already exists."),
        ("No customer \u00abAda L.\u00bb here", "No customer \u00abGrace\u00bb here"),
        ("No customer \u00bbAda\u00ab here", "No customer \u00bbGrace\u00ab here"),
        ("No customer \u201cAda\u201d here", "No customer \u201cGrace H.\u201d here"),
        ("No customer \u201eAda\u201c here", "No customer \u201eGrace H.\u201c here"),
        ("No customer \u2018Ada\u2019 here", "No customer \u2018O\u201d\u2019 here"),
        ("Unknown column `a b`", "Unknown column `c`"),
        ("No cart V1StGXR8_Z5jdHi6B-myT", "No cart Uakgb_J5m9g-0JDMbcJqL"),
        ("No cart R4Zr-srIEJ here", "No cart 7JF9xkQ2pLm0 here"),
        ("Amount 1e-05 is bad", "Amount 12.5 is bad"),
        ("Amount -3.2 is bad", "Amount 1.5E+10 is bad"),
        ("Amounts (.5, -1)", "Amounts (nan)"),
        ("Key (a, b)=(1, x) is not present.", "Key (a, b)=(2, y z) is not present."),
    ],
)
def test_what_differs_from_job_to_job_does_not_count(node: Master, one: str, other: str) -> None:
    """Numbers, identifiers and quoted texts; and where the release lies, and its lines."""
    same = "select txqueue.fingerprint(%s) = txqueue.fingerprint(%s)"
    assert node.value(same, one, other)
    assert node.value(same, error(one, line=7), error(other, release="r2", line=99))
    for text in (one, error(one), error(f"{one}\nDETAIL: 7 of 9"), error(one) + error(other)):
        assert node.value(
            "select txqueue.fingerprint(%s) = txqueue.fingerprint(txqueue.error_shape(%s))",
            text,
            text,
        )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Order4711: no address", "Order4712: no address"),
        ("Order4711", "Order4712"),
        ("shop.Order4711: no address\n\nSee order 4711", "shop.Order4712: no address\n\nSee it"),
        ("order4711: no address", "order4712: no address"),
        ("report17.csv: no rows", "report42.csv: no rows"),
        ("db1.shop.test: no answer", "db2.shop.test: no answer"),
    ],
)
def test_a_reason_of_a_handler_has_no_class(node: Master, one: str, other: str) -> None:
    """Numbers at its beginning do not count either, as that of a job."""
    assert node.value("select txqueue.fingerprint(%s) = txqueue.fingerprint(%s)", one, other)
    assert node.value(SAME_KIND, one, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("api.Error404: refused", "api.Error500: refused"),
        ("api.Error404", "api.Error500"),
        ("api.error404: refused", "api.error500: refused"),
        ("error404: refused", "error500: refused"),
        ("api1.Refused: no", "api2.Refused: no"),
        ("api.call_of_all.<locals>.Error404: no", "api.call_of_all.<locals>.Error500: no"),
        ("api.Error00000001: refused", "api.Error00000002: refused"),
    ],
)
@pytest.mark.parametrize("whole", [error, "{0}\n\n{0}".format], ids=["frames", "no frames"])
def test_exceptions_whose_classes_differ_in_digits(
    node: Master, whole: Callable[[str], str], one: str, other: str
) -> None:
    """They are of two kinds, as names in the code are not those of jobs."""
    same = "select txqueue.fingerprint(%s) = txqueue.fingerprint(%s)"
    assert not node.value(same, whole(one), whole(other))
    assert node.value(SAME_KIND, whole(one), whole(one))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\nTraceback 12",
        error(""),
        error("7"),
        error('Bad File "/srv/a1.py", line 5, in f7'),
        error("mail"),
        error("E") + "\nE",
        error("remote") + "\n\nremote",
    ],
)
def test_an_unusual_error_has_a_shape_of_the_same_kind(node: Master, text: str) -> None:
    """Whatever its message repeats, or has of a traceback."""
    assert node.value(
        "select txqueue.fingerprint(%s) = txqueue.fingerprint(txqueue.error_shape(%s))", text, text
    )


def test_errors_that_differ_in_numbers_have_one_shape(node: Master) -> None:
    """A statement computes their fingerprint once."""
    same = "select txqueue.error_shape(%s) = txqueue.error_shape(%s)"
    assert node.value(same, error("ValueError: row 17"), error("ValueError: row 42"))
    assert node.value(same, "row 17 is bad", "row 42 is bad")
    assert not node.value(same, error("Error404: row 17"), error("Error500: row 17"))
    assert not node.value(same, error("ValueError: row 17"), error("ValueError: no 17"))
    assert not node.value(same, error("V: 1"), error("V: 1", function="check"))


def failed_together(node: Master, texts: list[str]) -> list[int]:
    """Jobs that one statement has settled as failed, with an error each."""
    node.enqueue(*[{}] * len(texts))
    (chunk,) = node.claim()
    outcomes = [
        {"job_id": job, "assignment": chunk.assignment, "outcome": "failed", "error": text}
        for job, text in zip(chunk.ids, texts, strict=True)
    ]
    settled = "select settled from txqueue.settle(%s, %s)"
    assert node.value(settled, node.incarnation, json.dumps(outcomes)) == chunk.ids
    return chunk.ids


def test_failures_written_together_keep_their_own_kinds(node: Master) -> None:
    """Those of one kind have one fingerprint, the others theirs."""
    texts = [error("V: 1"), error("V: 2"), error("K: 1"), "V: 1"]
    jobs = failed_together(node, texts)
    found = [node.job(job)["fingerprint"] for job in jobs]
    assert found == [node.value("select txqueue.fingerprint(%s)", text) for text in texts]


@pytest.mark.parametrize("of", [outcomes_text, lambda jobs: "".join(outcomes_texts(jobs))])
def test_a_report_that_has_frames_once_stores_whole_errors(
    node: Master, of: Callable[[list[SettledJob]], str]
) -> None:
    """With the job and with its attempt, and of the same kinds as errors that are sent whole."""
    lines = ["V: 1", "V: 2", "K: 'a'", "V: 3", 'E: File "x", line 2, in y', "M: 4\nand 5", "V: 2"]
    lines += ["api.E404: no", "api.E500: no"]
    places = ("perform", "perform", "check", "check", *"abc", "check", "check")
    traces = [TRACEBACK.format(name) for name in places]
    node.enqueue(*[{}] * len(lines))
    (chunk,) = node.claim()
    jobs = [
        SettledJob(job, chunk.assignment, "retry", 9.0, framed(line, trace), frames=trace)
        for job, line, trace in zip(chunk.ids, lines, traces, strict=True)
    ]
    settled = "select settled from txqueue.settle(%s, %s)"
    assert node.value(settled, node.incarnation, of(jobs)) == chunk.ids
    attempts = "select array_agg(error order by job_id) from txqueue.failed_attempt"
    texts = [job.error for job in jobs]
    assert node.value(f"{attempts} where job_id = any (%s)", chunk.ids) == texts
    rows = [node.job(job) for job in chunk.ids]
    assert [row["error"] for row in rows] == texts
    kinds = [node.value("select txqueue.fingerprint(%s)", text) for text in texts]
    assert [row["fingerprint"] for row in rows] == kinds
    assert kinds[0] == kinds[1]
    assert len(set(kinds)) == len(kinds) - 1


def test_a_long_error_is_cut_off_by_characters(node: Master) -> None:
    """An attempt has the first 4000, however many bytes each takes."""
    texts = ["é" * 4000, "é" * 4001, "e" * 4001]
    jobs = failed_together(node, texts)
    assert [node.job(job)["error"] for job in jobs] == texts
    attempts = "select array_agg(error order by job_id) from txqueue.failed_attempt"
    assert node.value(attempts) == [text[:4000] for text in texts]


def test_the_same_line_of_two_places_is_of_two_kinds(node: Master) -> None:
    """Also in one statement: the frames tell them apart, not the line."""
    node.enqueue({}, {}, {})
    (chunk,) = node.claim()
    places = [TRACEBACK.format(name) for name in ("perform", "check", "perform")]
    jobs = [
        SettledJob(job, chunk.assignment, "failed", error=framed("V: 1", trace), frames=trace)
        for job, trace in zip(chunk.ids, places, strict=True)
    ]
    settled = "select settled from txqueue.settle(%s, %s)"
    text = "".join(outcomes_texts(jobs))
    assert node.value(settled, node.incarnation, text) == chunk.ids
    first, second, third = (node.job(job)["fingerprint"] for job in chunk.ids)
    assert first == third != second


def test_frames_of_an_outcome_that_does_not_count_are_those_of_others(node: Master) -> None:
    """Of two outcomes of one job the first counts; another job has the frames of the second."""
    node.enqueue({}, {})
    (chunk,) = node.claim()
    trace = TRACEBACK.format("perform")
    outcomes = [
        {"job_id": chunk.ids[0], "outcome": "failed", "error": "first"},
        {"job_id": chunk.ids[0], "outcome": "failed", "error": "V", "trace": "1", "frames": trace},
        {"job_id": chunk.ids[1], "outcome": "failed", "error": "V: 7", "trace": "1"},
    ]
    text = json.dumps([each | {"assignment": chunk.assignment} for each in outcomes])
    settled = "select settled from txqueue.settle(%s, %s)"
    assert node.value(settled, node.incarnation, text) == chunk.ids
    assert [node.job(job)["error"] for job in chunk.ids] == ["first", framed("V: 7", trace)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (error("ValueError: no such row"), error("KeyError: no such row")),
        (error("ValueError: no such row"), error("ValueError: too many rows")),
        (error("ValueError: no"), error("ValueError: no", function="check")),
        (error("ValueError: no"), "ValueError: no"),
        ("KeyError: customer_address_key", "KeyError: customer_invoice_key"),
        ("Key (email)=(ann) already exists.", "Key (name)=(ann) already exists."),
        ("May not read arn:aws:s3:::ann", "May not read arn:aws:sqs:::ann"),
        ("Want application/json and/or text", "Want application/xml and/or text"),
        ("Missing rows, 1 of 2", "Missing rows, all"),
        ("Base64Decoder is broken", "Sha256Hasher is broken"),
        ("Http2Connection lost", "Http2Stream lost"),
        (error("api.Error404: refused"), error("api.Error500: refused")),
    ],
)
def test_errors_of_different_kinds_have_different_fingerprints(
    node: Master, one: str, other: str
) -> None:
    """By class, by message, and by the function that raised them."""
    assert not node.value("select txqueue.fingerprint(%s) = txqueue.fingerprint(%s)", one, other)


def test_failures_are_counted_by_kind(node: Master) -> None:
    """Those that failed for good and those that wait for another attempt, no others."""
    failed(node, error("ValueError: row 1"), error("ValueError: row 2"), error("KeyError: 'x'"))
    failed(node, error("ValueError: row 3"), outcome="retry")
    failed(node, error("ValueError: row 4"), outcome="snooze")
    failed(node, error("ValueError: row 5"), outcome="cancelled")
    assert kinds(node) == [(1, 0, "KeyError: 'x'"), (2, 1, "ValueError: row 3")]


def test_a_poisonous_job_has_a_kind_too(node: Master) -> None:
    """Its error is written by the database."""
    node.enqueue({})
    for _ in range(5):
        (chunk,) = node.claim()
        died = "select txqueue.release(%s, %s, true)"
        node.value(died, node.incarnation, [chunk.assignment])
    ((count, _, said),) = kinds(node)
    assert (count, said[:7]) == (1, "poison:")


def test_all_of_a_kind_run_again(node: Master) -> None:
    """Failed jobs start over, waiting ones run at once; others are unchanged."""
    ids = failed(node, error("ValueError: row 1"), error("ValueError: row 2"))
    ids += failed(node, error("ValueError: row 3"), outcome="retry")
    (other,) = failed(node, error("KeyError: 'x'"))
    kind = node.job(ids[0])["fingerprint"]
    node.cursor.execute("select * from txqueue.retry_failures(%s, 'ann', null, 2)", (kind,))
    ((retried, until),) = node.cursor.fetchall()
    assert retried == 2
    again = "select retried from txqueue.retry_failures(%s, 'ann', %s, 2)"
    assert [node.value(again, kind, until), node.value(again, kind, until)] == [1, 0]
    assert sorted(node.claimed_ids()) == ids
    assert [node.job(job_id)["attempt"] for job_id in ids] == [0, 0, 1]
    assert node.job(other)["state"] == "failed"


def test_what_fails_again_meanwhile_is_left_for_the_next_time(node: Master) -> None:
    """Otherwise running all of a kind again would never come to an end."""
    (job_id,) = failed(node, error("ValueError: row 1"))
    kind = node.job(job_id)["fingerprint"]
    node.cursor.execute("select * from txqueue.retry_failures(%s, 'ann')", (kind,))
    ((_, until),) = node.cursor.fetchall()
    (chunk,) = node.claim()
    node.settle(chunk, "failed", error=error("ValueError: row 2"))
    assert 0 == node.value("select retried from txqueue.retry_failures(%s, 'ann', %s)", kind, until)


def test_all_of_a_kind_are_postponed(node: Master) -> None:
    """Failed ones run again then, those that wait not before; they stay of their kind."""
    ids = failed(node, error("ValueError: row 1"))
    ids += failed(node, error("ValueError: row 2"), outcome="retry")
    kind = node.job(ids[0])["fingerprint"]
    node.cursor.execute("select * from txqueue.postpone_failures(%s, 'ann', 7200)", (kind,))
    ((postponed, until),) = node.cursor.fetchall()
    assert postponed == 2
    assert [node.job(job_id)["not_before"] for job_id in ids] == [until, until]
    assert node.states() == {"waiting": 2}
    assert kinds(node) == [(0, 2, "ValueError: row 2")]
    more = "select postponed from txqueue.postpone_failures(%s, 'ann', 7200, %s)"
    assert node.value(more, kind, until) == 0
    assert node.value("select retried from txqueue.retry_failures(%s, 'ann')", kind) == 2
    assert sorted(node.claimed_ids()) == ids


def test_all_of_a_kind_are_given_up(node: Master) -> None:
    """The failed ones count as cancelled, with their errors; those that wait get their attempt."""
    ids = failed(node, error("ValueError: row 1"), error("ValueError: row 2"))
    (waiting,) = failed(node, error("ValueError: row 3"), outcome="retry")
    (other,) = failed(node, error("KeyError: 'x'"))
    kind = node.job(ids[0])["fingerprint"]
    node.cursor.execute("select * from txqueue.discard_failures(%s, 'ann', null, 1)", (kind,))
    ((discarded, until),) = node.cursor.fetchall()
    again = "select discarded from txqueue.discard_failures(%s, 'ann', %s, 1)"
    counts = [discarded, node.value(again, kind, until), node.value(again, kind, until)]
    assert counts == [1, 1, 0]
    assert [node.job(job_id)["state"] for job_id in ids] == ["cancelled", "cancelled"]
    assert node.job(ids[0])["error"].startswith("ValueError: row 1")
    assert node.job(waiting)["state"] == "waiting"
    assert kinds(node) == [(0, 1, "ValueError: row 3"), (1, 0, "KeyError: 'x'")]
    assert node.job(other)["state"] == "failed"


def test_a_failed_job_is_given_up_alone(node: Master) -> None:
    """By cancelling it; it may be run again all the same."""
    (job_id,) = failed(node, error("ValueError: row 1"))
    assert node.value("select cancelled from txqueue.cancel(%s, 'ann')", [job_id]) == [job_id]
    assert kinds(node) == []
    assert node.value("select refused from txqueue.cancel(%s, 'ann')", [job_id]) == [job_id]
    assert node.value("select retried from txqueue.retry(%s, 'ann')", [job_id]) == [job_id]
    assert node.claimed_ids() == [job_id]


@pytest.mark.parametrize("act", ["retry_failures(%s, 'ann', null, 1)", POSTPONE])
def test_those_whose_key_is_held_do_not_hide_the_others(node: Master, act: str) -> None:
    """One that must stay as it is comes first; the next is taken all the same, some at a time."""
    (held,) = node.enqueue({"unique": "k"})
    (chunk,) = node.claim()
    node.settle(chunk, "failed", error=error("ValueError: row 1"))
    (free,) = failed(node, error("ValueError: row 2"))
    node.enqueue({"unique": "k"})
    kind = node.job(held)["fingerprint"]
    assert node.value(f"select cardinality(array(select 1 from txqueue.{act}))", kind) == 1
    assert node.job(held)["state"] == "failed"
    assert node.job(free)["state"] != "failed"


@pytest.mark.parametrize(
    "act", ["retry_failures('no-such', 'ann')", "postpone_failures('no-such', 'ann', 60)"]
)
def test_a_kind_that_is_not_there_is_refused(node: Master, act: str) -> None:
    """With a word on where the kinds are listed."""
    with pytest.raises(Exception, match="no job has failed like no-such"):
        node.value(f"select txqueue.{act}")


@pytest.mark.parametrize("delay", ["null", "-1", "'NaN'"])
def test_a_delay_must_be_one(node: Master, delay: str) -> None:
    """Before anything is written."""
    with pytest.raises(Exception, match="a delay of"):
        node.value(f"select txqueue.postpone_failures('x', 'ann', {delay})")


def test_a_job_that_succeeds_has_no_kind(node: Master) -> None:
    """Its last error stays to be read."""
    (job_id,) = failed(node, error("ValueError: row 1"), outcome="retry")
    node.value("select txqueue.retry(%s, 'ann')", [job_id])
    (chunk,) = node.claim()
    node.complete(chunk)
    job = node.job(job_id)
    assert (job["state"], job["fingerprint"], job["error"][:10]) == ("done", None, "ValueError")
