"""The dashboard of a real node."""

import signal
from pathlib import Path

from tests.browser import Browser
from tests.cluster.app import Noted
from tests.cluster.nodes import PATIENCE, Nodes
from tests.cluster.peers import free_port
from tests.waiting import eventually
from txqueue import WorkQueue
from txqueue.web.logins import user_line


async def test_an_operator_cancels_a_running_job_in_the_dashboard(
    nodes: Nodes, queue: WorkQueue, tmp_path: Path
) -> None:
    """Its page shows it running, then cancelled, and who did it; the node then stops as ever."""
    port, users = free_port(), tmp_path / "users"
    users.touch(mode=0o600)
    users.write_text(user_line("ann", "operator", "secret"))
    options = "--web", f"tcp:{port}", "--web-users", str(users)
    node = await nodes.start(*options, TXQUEUE_LEASE="10").up()
    job_id = await queue.enqueue(Noted(600.0))
    browser = Browser(port)
    await browser.post("/login", {"name": "ann", "password": "secret"})

    async def shows(text: str) -> bool:
        return text in (await browser.get(f"/jobs/{job_id}")).text

    await eventually(lambda: shows('<span class="state assigned">running</span>'), PATIENCE)

    async def is_on_the_page_of_its_node() -> bool:
        text = (await browser.get(f"/nodes/node?name={node.name}")).text
        return f'href="/jobs/{job_id}"' in text and '<span class="state alive">ready</span>' in text

    await eventually(is_on_the_page_of_its_node, PATIENCE)
    assert node.name in (await browser.get("/nodes")).text
    await browser.post("/act/jobs", {"act": "cancel", "id": job_id})
    await eventually(lambda: shows('<span class="state cancelled">cancelled</span>'), PATIENCE)
    assert "ann" in (await browser.get("/actions")).text
    node.signal(signal.SIGTERM)
    node.ended()
