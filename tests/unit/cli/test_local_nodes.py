"""Which node of the host a command goes to, when it names none; and which database it serves."""

import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Self

import pytest
from twisted.internet.defer import Deferred

from txqueue.cli.source import _ensure_serves, chosen_endpoint, local_endpoints, only_endpoint
from txqueue.errors import AdminRefused, NodeUnavailable
from txqueue.store.schema.files import QueueIdentity
from txqueue.system.settings import Settings

SHOP, MAIL = QueueIdentity("1", "shop"), QueueIdentity("2", "mail")


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[Any]:
    """Let nodes of these names listen; a name with a minus has left its socket."""
    with ExitStack() as stack:

        def listen(*names: str) -> None:
            for name in names:
                node = stack.enter_context(closing(socket.socket(socket.AF_UNIX)))
                node.bind(str(tmp_path / f"{name.strip('-')}.sock"))
                if not name.startswith("-"):
                    node.listen()

        yield listen


def found(folder: Path, **environ: str) -> list[str]:
    """Return the names of the nodes that are found, in order."""
    variables = {"TXQUEUE_STATE_DIR": str(folder), "TXQUEUE_NAME": "own", **environ}
    return [Path(each).stem for each in local_endpoints(Settings({}, variables, folder))]


def test_the_node_with_the_set_name_comes_first(listening: Any, tmp_path: Path) -> None:
    """And those of killed nodes are left out."""
    with pytest.raises(NodeUnavailable, match=r"none of this host listens at .*own\.sock"):
        found(tmp_path)
    listening("-dead")
    assert found(tmp_path) == ["dead"]
    listening("venus", "mars")
    assert found(tmp_path) == ["mars", "venus"]
    listening("own")
    assert found(tmp_path) == ["own", "mars", "venus"]
    assert found(tmp_path, TXQUEUE_NAME="venus") == ["venus", "mars", "own"]


class Node:
    """Stands for the connection to a node: it serves a queue, or does not tell which."""

    def __init__(self, queue: QueueIdentity | Exception) -> None:
        self._queue = queue

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def queue(self) -> QueueIdentity:
        """Tell which queue it serves."""
        if isinstance(self._queue, Exception):
            raise self._queue
        return self._queue


def chosen(
    queues: Sequence[QueueIdentity | Exception], meant: QueueIdentity | None, names: str = "abc"
) -> str:
    """Return which of the nodes is chosen, if they serve these queues; a is the own one."""
    nodes: dict[str, Any] = {name: Node(queue) for name, queue in zip(names, queues, strict=False)}

    async def connect(endpoint: str) -> Any:
        return nodes[endpoint]

    results: list[Any] = []
    choosing = chosen_endpoint(list(nodes), "a", meant, connect)
    Deferred.fromCoroutine(choosing).addBoth(results.append)
    [result] = results
    if not isinstance(result, str):
        result.raiseException()
    return str(result)


@pytest.mark.parametrize(
    ("queues", "meant", "names", "expected"),
    [
        ([SHOP], MAIL, "a", "a"),
        ([SHOP, MAIL], None, "ab", "a"),
        ([SHOP, MAIL], MAIL, "ab", "b"),
        ([AdminRefused("too old", ""), SHOP, SHOP], SHOP, "abc", "b"),
        ([SHOP, SHOP], MAIL, "ab", "a"),
        ([SHOP, SHOP], None, "bc", "b"),
    ],
)
def test_a_node_of_the_database_is_chosen(
    queues: list[QueueIdentity], meant: QueueIdentity | None, names: str, expected: str
) -> None:
    """Any of them acts for all; without a database, the host's own one."""
    assert chosen(queues, meant, names) == expected


def test_nodes_of_several_databases_are_named() -> None:
    """A command never acts on a database that its user may not mean."""
    with pytest.raises(NodeUnavailable, match="b serves shop; d serves mail"):
        chosen([SHOP, MAIL], None, "bd")


def test_a_probe_asks_one_node_and_no_other() -> None:
    """The health of any other says nothing."""
    assert only_endpoint(["b"], "a") == "b"
    assert only_endpoint(["a", "b"], "a") == "a"
    with pytest.raises(NodeUnavailable, match="this host has 2 nodes: b, c; name one"):
        only_endpoint(["b", "c"], "a")


@pytest.mark.parametrize(
    ("queue", "said"),
    [
        (
            AdminRefused("no right; grant it"),
            "whether the node serves the named database cannot be checked: no right; grant it;"
            " name no database: leave out --dsn and TXQUEUE_DSN",
        ),
        (
            QueueIdentity("other", "the database d"),
            "the command names the database d, and the node serves another one of that address;",
        ),
    ],
)
async def test_a_node_that_does_not_serve_the_named_queue_or_does_not_say(
    queue: QueueIdentity | Exception, said: str
) -> None:
    """Two remedies are two sentences, and two queues are not told apart by the same place."""
    node: Any = Node(queue)
    with pytest.raises((AdminRefused, NodeUnavailable)) as caught:
        await _ensure_serves(node, QueueIdentity("meant", "the database d"))
    assert str(caught.value).startswith(said)
