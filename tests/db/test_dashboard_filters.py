"""The filters of the dashboard's list of jobs, and tags on its pages."""

import re
from html import unescape
from typing import Any
from urllib.parse import parse_qs, quote

import pytest

from tests.browser import Browser
from tests.dashboards import served
from tests.db.masters import Master, in_each_state
from tests.db.test_parents import end, put
from txqueue.store.reads import job_search
from txqueue.web import acts
from txqueue.web.pages import job_list

HOSTILE = "<script>alert(1)</script>50%_\\'\" é🎉"


def tagged(**tags: str) -> dict[str, Any]:
    """Return a job with tags."""
    return {"options": {"tags": tags}}


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> int:
    """How many jobs a page looks at."""
    for module in (job_search, acts):
        monkeypatch.setattr(module, "LOOKED_AT", 10)
    return 10


async def test_jobs_are_filtered_by_what_they_contain(node: Master, browser: Browser) -> None:
    """By tag, payload, error and time, each from the address."""
    ids = node.enqueue(
        tagged(a=HOSTILE), tagged(a="b"), {"payload": {"order": HOSTILE}}, {}, {"tenant": "x"}
    )
    node.cursor.execute("update txqueue.job set error = %s where job_id = %s", (HOSTILE, ids[3]))
    asked = {
        f"tag={quote('a=' + HOSTILE)}": [ids[0]],
        "tag=a": [ids[1], ids[0]],
        "tag=a&tag=a%3Db": [ids[1]],
        f"payload={quote('order=' + HOSTILE)}": [ids[2]],
        f"error={quote('ALERT(1)</Script>50%_')}": [ids[3]],
        "since=1h&tenant=x": [ids[4]],
        "until=1h": [],
        "tag=&payload=&error=&since=&until=": ids[::-1],
    }
    for query, expected in asked.items():
        text = (await browser.get(f"/jobs?{query}")).text
        assert [each for each in ids[::-1] if f'id="j-{each}"' in text] == expected, query
        assert "<script>alert" not in text


async def test_each_active_filter_is_a_link_that_removes_it(node: Master, browser: Browser) -> None:
    """And the part of the form that has them is open then only."""
    node.enqueue(tagged(a="b", team="<i>"))
    plain = (await browser.get("/jobs?tenant=")).text
    usual = (await browser.get("/jobs?tenant=x")).text
    more = (await browser.get("/jobs?tag=a%3Db&queue=default")).text
    assert "<details>" in plain
    assert "Active filters" not in plain
    assert "<details>" in usual
    assert 'href="/jobs?" title="Remove this filter">Tenant: x' in usual
    assert "<details open>" in more
    assert 'href="/jobs?queue=default" title="Remove this filter">Tag: a=b' in more
    assert "team=&lt;i&gt;" in more
    assert "tag=a%3Db&amp;queue=default&amp;tag=" not in more


async def test_a_search_says_how_far_it_has_looked(
    node: Master, browser: Browser, bound: int
) -> None:
    """With a link that goes on from there."""
    ids = node.enqueue(tagged(a="b"), *[{}] * 15)
    first = (await browser.get("/jobs?tag=a")).text
    second = (await browser.get(f"/jobs?tag=a&after={ids[6]}")).text
    assert f"Searched the newest {bound} jobs." in first
    assert "No job matches so far." in first
    assert f'href="/jobs?tag=a&amp;after={ids[6]}" rel="next">Search further back' in first
    assert f'id="j-{ids[0]}"' in second
    assert "Searched" not in second


async def test_the_oldest_jobs_come_first_if_asked(
    node: Master, browser: Browser, bound: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Page by page, and also in a search; the head of the column leads there and back."""
    monkeypatch.setattr(job_list, "_ON_A_PAGE", 2)
    ids = node.enqueue({}, {}, *[{}] * 9, tagged(a="b"))
    usual = (await browser.get("/jobs")).text
    first = (await browser.get("/jobs?sort=job_id")).text
    then = (await browser.get(f"/jobs?sort=job_id&after={ids[1]}")).text
    search = (await browser.get("/jobs?sort=job_id&tag=a")).text
    assert re.findall(r'id="j-(\d+)"', first + then) == [str(job_id) for job_id in ids[:4]]
    assert f'after={ids[1]}" rel="next">Newer jobs' in first
    assert f"Searched the oldest {bound} jobs." in search
    assert f'tag=a&amp;after={ids[bound - 1]}" rel="next">Search further on' in search
    assert 'aria-sort="descending"><a href="/jobs?sort=job_id">Job' in usual
    assert 'aria-sort="ascending"><a href="/jobs?sort=-job_id">Job' in first


async def test_a_job_shows_its_tags(node: Master, browser: Browser) -> None:
    """Each leads to the jobs that have it."""
    [job_id, other] = node.enqueue(tagged(a=HOSTILE), {})
    text = (await browser.get(f"/jobs/{job_id}")).text
    without = (await browser.get(f"/jobs/{other}")).text
    assert "a=&lt;script&gt;alert(1)" in text
    assert "/jobs?tag=a%3D%3Cscript%3E" in text
    assert "<dt>Tags" not in without


async def test_an_act_on_all_has_the_same_filter(
    node: Master, developer: Browser, bound: int
) -> None:
    """It changes what its question counts: the newest of those that it may change."""
    ids = node.enqueue(*(tagged(a="b") if each % 2 else {} for each in range(30)))
    question = (await developer.get("/jobs/confirm?act=cancel&tag=a%3Db&queue=default")).text
    form = {"act": "cancel", "all": "1", "tag": ["a=b"], "queue": "default", "back": "/jobs"}
    await developer.post("/act/jobs", form)
    after = (await developer.get("/jobs")).text
    assert "5 jobs match." in question
    assert f"Only the newest {bound} jobs that can change are searched" in question
    assert 'name="tag" value="a=b"' in question
    assert f"5 jobs cancelled. Only the newest {bound} jobs were searched." in after
    assert node.column("select job_id from txqueue.job where state = 'cancelled' order by 1") == [
        each for each in ids[20:] if (each - ids[0]) % 2
    ]


@pytest.mark.parametrize(
    ("act", "counts", "changed"),
    [
        ("retry", {"failed": 1}, ["failed"]),
        ("cancel", {"waiting": 2, "ready": 1, "assigned": 1}, ["again", "later", "ready"]),
        ("cancel&state=failed", {"failed": 1}, ["failed"]),
    ],
)
async def test_an_act_on_all_changes_what_its_question_counts(
    node: Master, developer: Browser, act: str, counts: dict[str, int], changed: list[str]
) -> None:
    """By state: cancelled jobs do not run again, nor are failed ones given up, unless asked."""
    jobs = in_each_state(node)
    before = {name: node.job(job_id)["state"] for name, job_id in jobs.items()}
    question = (await developer.get(f"/jobs/confirm?act={act}&queue=default")).text
    fields = {**parse_qs(f"act={act}"), "all": "1", "queue": "default"}
    await developer.post("/act/jobs", fields)
    told = re.findall(r'<dt><span class="state (\w+)">[^<]+</span></dt><dd>(\d+)', question)
    assert {state: int(number) for state, number in told} == counts
    after = {name: node.job(job_id)["state"] for name, job_id in jobs.items()}
    assert sorted(name for name in jobs if before[name] != after[name]) == sorted(changed)


@pytest.mark.parametrize(
    ("state", "offered"), [("done", ["delete_jobs"]), ("cancelled", ["retry", "delete_jobs"])]
)
async def test_only_acts_that_change_listed_jobs_are_offered(
    node: Master, developer: Browser, state: str, offered: list[str]
) -> None:
    """Of a list of one state."""
    in_each_state(node)
    text = (await developer.get(f"/jobs?state={state}")).text
    assert re.findall(r'name="act" value="(\w+)"', text) == offered


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("/jobs?type=shop.Order", "did you mean work_type?"),
        ("/jobs/confirm?act=cancel&ten%41nt=x", "did you mean tenant?"),
        ("/queues?work_type=x", "those of this page: after"),
        ("/nodes?%3Ci%3E=", "those of this page: none"),
        ("/jobs?state=done&state=failed", "several values for state"),
        ("/failures?work_type=a&work_type=b", "several values for work_type"),
        ("/jobs?tag=a%20b", "names no tag"),
        ("/jobs?state=odd", "odd"),
    ],
)
async def test_an_unknown_filter_is_refused(
    node: Master, browser: Browser, address: str, said: str
) -> None:
    """By any page, with the nearest name or those that there are; a wrong value as well."""
    answer = await browser.get(address)
    assert answer.status == 400
    assert said in answer.text.lower()
    assert "<i>" not in answer.text


async def test_an_act_with_a_wrong_filter_changes_nothing(node: Master, developer: Browser) -> None:
    """It is refused before it starts."""
    node.enqueue(tagged(a="b"))
    wrongs = ({"since": "soon"}, {"state": "odd"}, {"tag": "a b"}, {"tag": "=b"}, {"type": "x"})
    for wrong in wrongs:
        answer = await developer.post("/act/jobs", {"act": "cancel", "all": "1", **wrong})
        assert answer.status == 400
    assert node.states() == {"ready": 1}


async def test_names_with_recent_jobs_are_suggested(node: Master, dsn: str) -> None:
    """The busiest first, as text; without any, the fields are plain."""
    async with served(dsn) as browser:
        assert "datalist" not in (await browser.get("/jobs")).text
        node.cursor.execute(
            "insert into txqueue.minute_mark (at, seconds, last_job) values (now(), 60, 0)"
        )
        for queue, done in (("mail", 1), (HOSTILE, 2)):
            node.cursor.execute(
                "insert into txqueue.minute_counts (at, queue, work_type, done)"
                " select at, %s, 'shop.Order', %s from txqueue.minute_mark",
                (queue, done),
            )

    async with served(dsn) as browser:
        text = (await browser.get("/jobs")).text
    names = re.findall('<option value="([^"]*)"></option>', text)
    assert [unescape(name) for name in names] == [HOSTILE, "mail", "shop.Order"]
    assert 'list="known-queue"' in text
    assert 'list="known-tenant"' not in text


@pytest.mark.parametrize("has_ended", [False, True])
async def test_the_jobs_of_a_batch_are_listed_by_state(
    node: Master, browser: Browser, bound: int, has_ended: bool
) -> None:
    """Also once its callback has ended, and however many jobs are newer."""
    ids = node.enqueue({}, {}, {})
    callback = put(node, ids, after_any_end=True)
    end(node, "failed", ids[1])
    for job_id in [ids[0], ids[2], callback] if has_ended else []:
        end(node, "done", job_id)
    others = node.enqueue(*[{} for _ in range(2 * bound)])
    found = {
        state: re.findall(
            r'id="j-(\d+)"', (await browser.get(f"/jobs?batch={callback}{state}")).text
        )
        for state in ("", "&state=failed")
    }
    assert found == {"": [str(each) for each in ids[::-1]], "&state=failed": [str(ids[1])]}
    assert (await browser.get(f"/jobs?batch={others[0]}")).status == 200
    assert (await browser.get("/jobs?batch=x")).status == 400


async def test_words_of_a_search_become_filters(node: Master, browser: Browser) -> None:
    """A number leads to its job; what names nothing is text of an error."""
    node.enqueue({"queue": "mail", "tenant": "shop"})
    asked = {
        "17": "/jobs/17",
        "mail": "/jobs?queue=mail",
        "shop running": "/jobs?tenant=shop&state=assigned",
        "campaign=spring mail": "/jobs?tag=campaign%3Dspring&queue=mail",
        "group=a": "/jobs?group=a",
        "mail timed out": "/jobs?queue=mail&error=timed+out",
        "mail mail": "/jobs?queue=mail&error=mail",
    }
    for words, address in asked.items():
        answer = await browser.get(f"/search?q={quote(words)}")
        assert (answer.status, answer.headers["location"]) == (303, address), words


async def test_an_empty_list_names_what_a_misspelt_filter_may_mean(
    node: Master, browser: Browser
) -> None:
    """As the command line does."""
    node.enqueue({"queue": "mail"})
    text = (await browser.get("/jobs?queue=mial")).text
    assert "No live job, node or limit has the queue mial; there are mail" in text
    assert "No live job" not in (await browser.get("/jobs?queue=mail&state=done")).text
