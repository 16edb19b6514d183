"""The dashboard's page of one node: what is wrong with it, its workers, types and jobs."""

import json

from tests.browser import Browser
from tests.dashboards import served
from tests.db.masters import Master
from tests.db.test_dashboard_details import address, links, words

REPORT = {"workers": 3, "unable": 1, "processes": [[11, "ready", 2, 7], [12, "blocked", 1, 1]]}


def name_of(node: Master) -> str:
    """Return the name of a node."""
    return str(node.value(f"select name from txqueue.node_info where node_id = {node.node_id}"))


async def test_a_node_shows_its_workers_types_and_jobs(
    node: Master, browser: Browser, other: Master
) -> None:
    """As its last heartbeat told them; the jobs of other nodes are not shown."""
    node.cursor.execute(
        "update txqueue.node_info set report = %s, work_types = '{test.kind,mail.welcome}'"
        " where node_id = %s",
        (json.dumps(REPORT), node.node_id),
    )
    [mine] = node.enqueue({"tenant": "acme"})
    assert node.take(1).ids == [mine]
    [not_mine] = node.enqueue({})
    assert other.take(1).ids == [not_mine]
    page = (await browser.get(address("/nodes/node", name_of(node)))).text
    nodes, overview = [(await browser.get(path)).text for path in ("/nodes", "/")]
    shown = words(page)
    assert "11 ready 2 7" in shown
    assert "12 blocked 1 1" in shown
    assert "and 1 more workers" in shown
    assert f"1 worker of node {name_of(node)} can start no job" in shown
    assert f'href="/jobs/{mine}"' in page
    assert f'href="/jobs/{not_mine}"' not in page
    assert links(page, "/types/type") == {"test.kind", "mail.welcome"}
    for listed in (nodes, overview):
        assert name_of(node) in links(listed, "/nodes/node")


async def test_a_node_that_no_one_has_started_says_so(node: Master, browser: Browser) -> None:
    """Without a name the page leads to the list."""
    page = await browser.get(address("/nodes/node", "nowhere"))
    unnamed = await browser.get("/nodes/node")
    assert "No node has this name." in page.text
    assert unnamed.status == 303


async def test_a_dead_node_is_neither_busy_nor_up(node: Master, dsn: str) -> None:
    """What it last said of its load no longer holds, and its time ended with its last heartbeat."""
    node.cursor.execute(
        "update txqueue.node_info set load = 1.02, heartbeat_at = now() - interval '2 h',"
        " started_at = now() - interval '5 h'"
    )
    async with served(dsn) as browser:
        shown = [words((await browser.get(path)).text) for path in ("/", "/nodes")]
        page = words((await browser.get(address("/nodes/node", name_of(node)))).text)
        node.cursor.execute("update txqueue.node_info set heartbeat_at = now()")
    assert not [text for text in (*shown, page) if "busy" in text]
    assert "Was up 3 h" in page
    async with served(dsn) as browser:
        shown = [words((await browser.get(path)).text) for path in ("/", "/nodes")]
        page = words((await browser.get(address("/nodes/node", name_of(node)))).text)
    assert all("102 % of 100 busy" in text for text in shown)
    assert "Up 5 h" in page


async def test_a_node_that_stops_is_not_asked_to_accept_jobs(node: Master, dsn: str) -> None:
    """It would refuse; one that an operator drains does not."""
    offered = []
    node.cursor.execute("update txqueue.node_info set state = 'draining'")
    for report in ({}, {"is_ending": True}):
        node.reports(**report)
        async with served(dsn, key="secret") as browser:
            await browser.get("/login?key=secret")
            page = (await browser.get(address("/nodes/node", name_of(node)))).text
        offered.append(('name="act" value="undrain"' in page, "It is stopping" in page))
    assert offered == [(True, False), (False, True)]
