"""The dashboard's page of one job, and when a job in the list is due."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.browser import Browser
from tests.dashboards import log_in, served
from tests.db.masters import Master
from tests.db.test_dashboard_details import words
from tests.db.test_parents import end, put
from txqueue.store.driver.connection_pool import ConnectionPool


async def test_a_job_that_has_failed_for_good_shows_its_last_failure_once(
    node: Master, browser: Browser
) -> None:
    """The end of its life and its last attempt are one moment."""
    (job_id,) = node.enqueue({})
    node.settle(node.claim()[0], "retry", delay=0, error="x")
    node.settle(node.claim()[0], "failed", error="x")
    text = (await browser.get(f"/jobs/{job_id}")).text
    life = words(text.partition('class="timeline life"')[2].partition("</ol>")[0])
    assert life.count("failed") == 2
    assert "attempt 1 failed" in life
    assert "attempt 2 failed for good" in life


async def test_a_job_that_runs_or_waits_as_it_should_is_no_warning(
    node: Master, browser: Browser
) -> None:
    """Unlike one that needs an operator."""
    [running] = node.enqueue({})
    assert node.take(1).ids == [running]
    waiting, due, stopped = node.enqueue(
        {}, {"not_before": "2100-01-01T00:00:00Z"}, {"queue": "mail"}
    )
    node.value("select txqueue.pause('queue', 'mail', 'ann')")
    pages = {
        job: (await browser.get(f"/jobs/{job}")).text for job in (running, waiting, due, stopped)
    }
    assert [job for job, text in pages.items() if "calm-panel" not in text] == [stopped]


async def test_a_waiting_job_of_the_list_tells_when_it_is_due(
    node: Master, browser: Browser
) -> None:
    """One that waits for something else has no such moment."""
    node.enqueue({"not_before": "2100-01-01T00:00:00Z"})
    node.enqueue({"work_type": "unknown.kind"})
    text = (await browser.get("/jobs?state=waiting")).text
    rows = [words(row) for row in text.partition("<tbody>")[2].split("</tr>")[:2]]
    assert "waiting for type unknown.kind" in rows[0]
    assert "waiting for time, in " in rows[1]
    assert 'datetime="2100-01-01 00:00:00.000+00:00"' in text


@pytest.mark.parametrize("outcome", ["failed", "cancelled"])
async def test_a_child_that_was_cancelled_because_of_its_parent_tells_why(
    node: Master, browser: Browser, outcome: str
) -> None:
    """With the remedy, and links to all its parents, though it no longer waits for them."""
    good, parent = node.enqueue({}, {})
    (child,) = node.enqueue({"after": [good, parent]})
    end(node, outcome, parent)
    text = (await browser.get(f"/jobs/{child}")).text
    panel = words(text.partition('class="panel why')[2].partition("</section>")[0])
    assert f"unless these are done: job {parent} ({outcome})" in panel
    assert f"txqueue retry {parent} {child}" in panel
    family = text.partition('class="graph"')[2].partition("</section>")[0]
    for job_id in (good, parent):
        assert f'href="/jobs/{job_id}"' in family
    assert f'href="/jobs/{parent}"' in text.partition('class="panel why')[2].partition("</p>")[0]


async def test_a_job_that_sleeps_has_a_form_for_any_signal(node: Master, ann: Browser) -> None:
    """It waits for none; its page opens all the same."""
    (job_id,) = node.enqueue({})
    (chunk,) = node.claim()
    node.settle(chunk, "suspended", waits=[{"name": "nap", "kind": "sleep", "seconds": 3600}])
    page = await ann.get(f"/jobs/{job_id}")
    assert page.status == 200
    assert 'name="name" value=""' in page.text.partition('/act/signal"')[2]


async def test_the_steps_of_a_job_and_a_signal_to_it(
    node: Master, dsn: str, users: Mapping[str, Any]
) -> None:
    """They are on its page, with a form for the signal that it waits for; a viewer has none."""
    (job_id,) = node.enqueue({})
    (chunk,) = node.claim()
    step = {"job_id": job_id, "assignment": chunk.assignment, "name": "charge", "kind": "step"}
    node.cursor.execute(
        "select from txqueue.write_steps(%s, %s)",
        (node.incarnation, json.dumps([{**step, "result": {"id": "<b>"}}])),
    )
    wait = {"name": "approval", "kind": "signal", "signal": "approved <&>"}
    wait["annotation"] = "dict[str, str]"
    node.settle(chunk, "suspended", waits=[wait])
    node.value("select txqueue.signal(%s, 'other', '7')", job_id)
    async with served(dsn, users=users) as browser:
        await log_in(browser, "bob")
        assert "/act/signal" not in (await browser.get(f"/jobs/{job_id}")).text
    async with served(dsn, users=users) as browser:
        await log_in(browser, "ann")
        text = (await browser.get(f"/jobs/{job_id}")).text
        fields = {"id": job_id, "name": "approved <&>", "value": "{approved: true}"}
        wrong = await browser.post("/act/signal", fields)
        empty = await browser.post("/act/signal", {**fields, "value": ""})
        misfit = await browser.post("/act/signal", {**fields, "value": "3"})
        assert node.column("select name from txqueue.job_signal") == ["other"]
        await browser.post("/act/signal", {**fields, "value": '{"by": "Ada"}'})
        told = await browser.get(f"/jobs/{job_id}")
        assert "has the signal approved" in told.text
        assert "does not wait for that" not in told.text
        await browser.post("/act/signal", {**fields, "name": "aproved", "answer": "false"})
        misspelt = await browser.get(f"/jobs/{job_id}")
    section = words(text.partition('id="steps"')[2].partition("</section>")[0])
    assert "waits for the signal approved <&>" in section.replace("&lt;&amp;&gt;", "<&>")
    assert "other" in section
    form = text.partition('/act/signal"')[2].partition("</form>")[0]
    assert "approved &lt;&amp;&gt;" in form
    assert "Value in JSON (dict[str, str])" in form
    assert "Send true" not in form
    whys = (wrong, "is not JSON"), (empty, "has no value"), (misfit, "not a whole number: 3")
    for page, why in whys:
        assert why in page.text
        assert "approved &lt;&amp;&gt;" in page.text.partition('/act/signal"')[2]
    assert 'value="{approved: true}"' in wrong.text
    assert "It does not wait for that, but for" in misspelt.text
    assert node.value("select value from txqueue.job_signal where name = 'aproved'") is False
    assert node.value("select value from txqueue.job_signal where name = %s", "approved <&>") == {
        "by": "Ada"
    }
    assert node.column("select what || ' by ' || who from txqueue.action") == ["signal by ann"] * 2


async def test_a_job_of_many_steps_shows_the_latest(node: Master, browser: Browser) -> None:
    """And those at which it waits; its page stays small, live and ended."""
    (job_id,) = node.enqueue({})
    (chunk,) = node.claim()
    node.settle(chunk, "suspended", waits=[{"name": "wait", "kind": "signal", "signal": "go"}])
    node.cursor.execute(
        "insert into txqueue.job_step (job_id, name, kind, ended_at)"
        " select %s, 'page ' || number, 'step', now() from generate_series(1, 150) as number",
        (job_id,),
    )
    waiting = (await browser.get(f"/jobs/{job_id}")).text
    node.value("select cancelled from txqueue.cancel(%s, 'me')", [job_id])
    ended = (await browser.get(f"/jobs/{job_id}")).text
    assert ">wait<" in waiting
    for text in (waiting, ended):
        assert ">page 102<" in text
        assert ">page 101<" not in text
        assert f"txqueue steps {job_id}" in text


@pytest.mark.parametrize("reason", ["redacted", "encrypted"])
async def test_the_steps_of_a_hidden_type(node: Master, browser: Browser, reason: str) -> None:
    """Neither the payload nor their results nor the values of signals are on the page."""
    (job_id,) = node.enqueue({"payload": {"card": "secret"}})
    node.value("select txqueue.signal(%s, 'go', '\"secret\"')", job_id)
    (chunk,) = node.claim()
    step = {"job_id": job_id, "assignment": chunk.assignment, "name": "charge", "kind": "step"}
    node.cursor.execute(
        "select from txqueue.write_steps(%s, %s)",
        (node.incarnation, json.dumps([{**step, "result": "secret"}])),
    )
    node.cursor.execute(
        "insert into txqueue.work_type (work_type, queue, priority, weight, policy)"
        " values ('test.kind', 'default', 0, 1, %s::jsonb)"
        " on conflict (work_type) do update set policy = excluded.policy",
        (json.dumps({reason: True}),),
    )
    text = (await browser.get(f"/jobs/{job_id}")).text
    assert "secret" not in text
    assert "charge" in text
    file = await browser.get(f"/jobs/{job_id}/payload")
    assert (file.status >= 400, "secret" in file.text) == (True, False)


async def test_a_page_of_many_members_and_steps_reads_few_rows(
    node: Master, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the first of each state, with the number of all."""
    many = "generate_series(1, 3000)"
    ids = node.column(f"select txqueue.enqueue('test.kind', '{{}}') from {many}")
    callback = put(node, ids, after_any_end=True)
    end(node, "failed", ids[7])
    node.cursor.execute(
        "insert into txqueue.job_step (job_id, name, kind, ended_at, result) select %s,"
        " 'page ' || number, 'step', now(), to_jsonb(repeat('x', 5000))"
        " from generate_series(1, 9000) as number",
        (callback,),
    )
    node.cursor.execute(
        """update txqueue.job set options = options || '{"steps": true}' where job_id = %s""",
        (callback,),
    )
    counts = []
    query = ConnectionPool.query_dicts

    async def counting(pool: ConnectionPool, *asked: Any) -> Any:
        counts.append(len(rows := await query(pool, *asked)))
        return rows

    monkeypatch.setattr(ConnectionPool, "query_dicts", counting)
    text = (await browser.get(f"/jobs/{callback}")).text
    graph = text.partition('class="graph"')[2].partition("</section>")[0]
    assert f'href="/jobs/{ids[7]}"' in graph
    assert "and 2,99" in words(graph)
    assert "1 failed" in words(text.partition('id="batch"')[2].partition("</section>")[0])
    assert len(text) < 150_000
    assert sum(counts) < 150


async def test_a_copy_of_a_job_has_the_edited_payload(node: Master, ann: Browser) -> None:
    """Its numbers are as they were typed; the act has the operator's name."""
    (job_id,) = node.enqueue({"payload": {"price": 1}, "tenant": "acme"})
    node.complete(node.claim()[0])
    form = f"/jobs/{job_id}/copy"
    assert "&#34;price&#34;: 1\n" in (await ann.get(form)).text
    for wrong, why in (("{price: 1}", "is not JSON"), ("[1]", "is not a JSON object")):
        answer = await ann.post(form, {"payload": wrong})
        assert (answer.status, why in answer.text, wrong in answer.text) == (422, True, True)
    answer = await ann.post(form, {"payload": '{"price": 1.50}'})
    assert f"a copy of job {job_id}" in (await ann.get(answer.headers["location"])).text
    assert node.column("select payload::text from txqueue.job_ready") == ['{"price": 1.50}']
    assert node.column("select tenant from txqueue.job_ready") == ["acme"]
    assert node.column("select what || ' by ' || who from txqueue.action") == ["repeat by ann"]


async def test_the_payload_of_a_waiting_job_is_edited(node: Master, ann: Browser) -> None:
    """If it fits the schema of its type; not after a node has claimed the job."""
    (job_id,) = node.enqueue({"payload": {"price": 1}})
    schema = '{"type": "object", "properties": {"price": {"type": "integer"}}}'
    node.cursor.execute("update txqueue.work_type set schema = %s", (schema,))
    form = f"/jobs/{job_id}/edit"
    assert form in (await ann.get(f"/jobs/{job_id}")).text
    answer = await ann.post(form, {"payload": '{"price": "much"}'})
    assert (answer.status, "does not fit test.kind" in answer.text) == (422, True)
    await ann.post(form, {"payload": '{"price": 2}'})
    assert node.job(job_id)["payload"] == {"price": 2}
    node.claim()
    answer = await ann.post(form, {"payload": '{"price": 3}'})
    assert "is left unchanged" in (await ann.get(answer.headers["location"])).text


async def test_no_copy_is_enqueued_beside_the_holder_of_the_unique_key(
    node: Master, ann: Browser
) -> None:
    """The answer leads to the holder."""
    (job_id,) = node.enqueue({"unique": "one"})
    node.complete(node.claim()[0])
    (holder,) = node.enqueue({"unique": "one"})
    answer = await ann.post(f"/jobs/{job_id}/copy", {"payload": "{}"})
    assert answer.headers["location"] == f"/jobs/{holder}"
    assert f"No copy of job {job_id}" in (await ann.get(f"/jobs/{holder}")).text


async def test_payload_and_result_are_files_as_stored(node: Master, browser: Browser) -> None:
    """Also what the page cuts, which names the size."""
    (job_id,) = node.enqueue({"payload": {"text": "x" * 30_000}})
    node.cursor.execute("""update txqueue.job set payload = payload || '{"n": 1.50}'""")
    page = (await browser.get(f"/jobs/{job_id}")).text
    answer = await browser.get(f"/jobs/{job_id}/payload")
    assert "20,000 of 30," in page
    assert f'href="/jobs/{job_id}/payload" download="job-{job_id}-payload.json"' in page
    assert '"n": 1.50' in answer.text
    assert len(json.loads(answer.text)["text"]) == 30_000
    assert answer.headers["content-type"] == "application/json"


async def test_a_job_runs_again_from_one_of_its_steps(node: Master, ann: Browser) -> None:
    """Those before it keep their results."""
    (job_id,) = node.enqueue({})
    (chunk,) = node.claim()
    for name in ("charge", "mail"):
        step = {"job_id": job_id, "assignment": chunk.assignment, "name": name, "kind": "step"}
        node.cursor.execute(
            "select from txqueue.write_steps(%s, %s)",
            (node.incarnation, json.dumps([{**step, "result": 1}])),
        )
    node.settle(chunk, "failed", error="x")
    assert "Run again from here" in (await ann.get(f"/jobs/{job_id}")).text
    await ann.post("/act/step", {"id": job_id, "step": "mail"})
    page = (await ann.get(f"/jobs/{job_id}")).text
    assert "1 step will be done again" in page
    assert "Run again from here" not in page
    assert node.column("select name from txqueue.job_step") == ["charge"]
