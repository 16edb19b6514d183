"""A small HTTP client for tests of the dashboard: cookies, forms, and what a browser adds."""

import re
from collections.abc import Mapping
from io import BytesIO
from typing import Any
from urllib.parse import urlencode

from attrs import define, field, frozen
from twisted.internet.defer import Deferred
from twisted.internet.protocol import Protocol
from twisted.web.client import Agent, FileBodyProducer, HTTPConnectionPool
from twisted.web.http_headers import Headers

from tests.waiting import running_reactor

__all__ = ["Answer", "Body", "Browser", "body_of"]

_ACT = re.compile(
    r"((?:/databases/[^/]+)?)/(?:act/|schedules/edit|types/enqueue|jobs/\d+/(?:copy|edit))"
)
_MARK = re.compile(r'name="shown" value="([^"]+)"')


@frozen
class Answer:
    """An answer of the dashboard."""

    status: int
    text: str
    headers: Mapping[str, str]
    cookies: Mapping[str, str]


@define
class Browser:
    """Sends requests to one port as a browser does.

    Args:
        port: The port on loopback.
        base: The dashboard's base path.
    """

    port: int
    base: str = ""
    cookies: dict[str, str] = field(factory=dict)

    async def get(self, path: str, **headers: str) -> Answer:
        """Ask for a page."""
        return await self.send("GET", path, {}, headers)

    async def post(self, path: str, fields: Mapping[str, object], **headers: str) -> Answer:
        """Send a form, as from a page of the dashboard unless the headers say otherwise.

        A form that acts carries the mark of the database, as those of pages do.
        """
        if "shown" not in fields and (found := _ACT.match(path)):
            fields = {**fields, "shown": await self.mark(found[1])}
        return await self.send("POST", path, fields, {"sec-fetch-site": "same-origin", **headers})

    async def mark(self, database: str = "") -> str:
        """Return the mark that forms carry on the pages below a path; empty for no forms."""
        found = _MARK.search((await self.get(f"{database}/queues/queue?name=default")).text)
        return found[1] if found else ""

    async def send(
        self, method: str, path: str, fields: Mapping[str, object], headers: Mapping[str, str]
    ) -> Answer:
        """Send a request and read the answer; a header that is empty is left out."""
        given = {"host": f"localhost:{self.port}", **headers}
        if self.cookies:
            given["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        body = None
        if method == "POST":
            given["content-type"] = "application/x-www-form-urlencoded"
            body = FileBodyProducer(BytesIO(urlencode(fields, doseq=True).encode()))
        raw = Headers({name: [value] for name, value in given.items() if value})
        agent = Agent(running_reactor(), pool=HTTPConnectionPool(running_reactor(), False))
        address = f"http://127.0.0.1:{self.port}{self.base}{path}".encode()
        response: Any = await agent.request(method.encode(), address, raw, body)
        text = await body_of(response)
        return self._answer(response, text)

    def _answer(self, response: Any, text: str) -> Answer:
        headers, cookies = {}, {}
        for name, values in response.headers.getAllRawHeaders():
            headers[name.decode().lower()] = values[-1].decode()
            for value in values if name.lower() == b"set-cookie" else ():
                key, _, rest = value.decode().partition("=")
                cookies[key] = rest.partition(";")[0]
        self.cookies |= cookies
        return Answer(response.code, text, headers, cookies)


class Body(Protocol):
    """Reads the body of an answer.

    Attributes:
        text: What came so far.
        ended: Fires at the end.
    """

    def __init__(self) -> None:
        self.text = ""
        self.ended = Deferred[None]()

    def dataReceived(self, data: bytes) -> None:
        """Keep it."""
        self.text += data.decode()

    def connectionLost(self, reason: object = None) -> None:
        """Note the end."""
        self.ended.callback(None)


async def body_of(response: Any) -> str:
    """Read the whole body of an answer."""
    body = Body()
    response.deliverBody(body)
    await body.ended
    return body.text
