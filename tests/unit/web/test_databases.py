"""The databases of a dashboard: their file, their names, and what the list shows of each."""

from pathlib import Path
from typing import Any

import pytest

from txqueue.errors import ConfigurationError
from txqueue.web.messages import PageRequest, Role, Visitor
from txqueue.web.page_services import Figures
from txqueue.web.pages.overview import database_card
from txqueue.web.pages.routes import MENU
from txqueue.web.settings import ShownDatabase, named_databases, read_databases

SECRET = "hunter2"
DSN = f"postgresql://web:{SECRET}@db.example/orders"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file that only this account can read."""
    path = tmp_path / "databases.toml"
    path.touch(mode=0o600)
    return path


def test_a_database_has_a_dsn_or_a_table(file: Path) -> None:
    """In the order of the file; the schema is the given one unless the table names another."""
    file.write_text(f'orders = "{DSN}"\n[billing-2]\ndsn = "dbname=b"\nschema = "shard_a"\n')
    assert read_databases(file, "queue") == (
        ShownDatabase(DSN, "queue", "orders"),
        ShownDatabase("dbname=b", "shard_a", "billing-2"),
    )
    assert SECRET not in repr(read_databases(file, "queue"))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "has no database"),
        (f"orders = {DSN}", "is not valid TOML"),
        (f'orders = "{DSN}"\norders = "{DSN}"', "is not valid TOML"),
        (f'Orders = "{DSN}"', "'Orders' is not a name"),
        (f'"a b" = "{DSN}"', "'a b' is not a name"),
        (f'"../x" = "{DSN}"', "is not a name"),
        (f'"orders\\n" = "{DSN}"', "is not a name"),
        (f'{"x" * 41} = "{DSN}"', "is not a name"),
        ("orders = 5", "orders has no DSN"),
        ('orders = " "', "orders has no DSN"),
        ('[orders]\nschema = "a"', "orders has no DSN"),
        (f'orders = "{SECRET}"', "orders: the DSN is not valid"),
        (f'[orders]\ndsn = "{DSN}"\nscheme = "a"', "orders has 'scheme'"),
        (f'[orders]\ndsn = "{DSN}"\nschema = "a b"', "orders: the schema name 'a b'"),
    ],
)
def test_what_is_wrong_with_the_file_is_said(file: Path, text: str, what: str) -> None:
    """Without the DSN, which may have a password."""
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=what) as raised:
        read_databases(file, "txqueue")
    assert str(file) in str(raised.value)
    assert raised.value.remedy
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("mode", [0o644, 0o620, 0o602])
def test_a_file_that_others_can_read_or_change_is_refused(file: Path, mode: int) -> None:
    """As the file of users is."""
    file.write_text(f'orders = "{DSN}"')
    file.chmod(mode)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        read_databases(file, "txqueue")
    with pytest.raises(ConfigurationError, match="--databases FILE"):
        read_databases(file.with_name("absent"), "txqueue")


def test_the_databases_of_a_node_are_named_by_their_dsns() -> None:
    """The names may stand in an address, and differ; the only one needs none."""
    dsns = [DSN, "dbname=orders host=b", "dbname='Ünï Cödé'", "host=c", "dbname=orders-2"]
    names = [each.name for each in named_databases(dsns, "txqueue")]
    assert names == ["orders", "orders-2", "n-c-d", "database", "orders-2-2"]
    assert named_databases([DSN], "queue") == (ShownDatabase(DSN, "queue"),)


@pytest.mark.parametrize(
    ("path", "query", "other"),
    [
        ("/", {}, "/"),
        ("/jobs", {"state": ["failed"], "after": ["12"]}, "/jobs?state=failed"),
        ("/queues/queue", {"name": ["a&b"]}, "/queues/queue?name=a%26b"),
        ("/jobs/12", {}, "/jobs"),
        ("/jobs/confirm", {"act": ["cancel"]}, "/jobs"),
        ("/schedules/edit", {"name": ["x"]}, "/schedules"),
        ("/login", {"key": ["secret"]}, "/"),
        ("/none", {}, "/"),
    ],
)
def test_another_database_is_shown_on_the_same_page(
    path: str, query: dict[str, list[str]], other: str
) -> None:
    """On the list, for a page of what the other one does not have."""
    request = PageRequest(path=path, visitor=Visitor("ann", Role.VIEWER), query=query)
    assert MENU.same_page(request) == other


def test_a_card_counts_what_its_database_has() -> None:
    """Nodes that were stopped do not count."""
    queue = {"waiting": 1, "ready": 2, "assigned": 3, "failed": 4}
    found: dict[str, Any] = {
        "queues": [{**queue, "oldest_ready_seconds": 5.0, "done_per_second": 0.5}] * 2,
        "other_queues": {"names": 9, **queue, "done_per_second": 1.0},
        "nodes": [{"state": state} for state in ("alive", "draining", "dead", "stopped")],
        "warnings": [{"kind": kind} for kind in ("dead_node", "paused", "full")],
    }
    card = database_card("orders", Figures(found, 3.0))
    sums = card["sums"]
    assert (card["path"], sums["failed"], sums["oldest"]) == ("/databases/orders", 12, 5.0)
    assert [card[name] for name in ("alive", "nodes", "warnings", "grave")] == [1, 3, 3, 1]


def test_a_database_that_was_never_read_has_a_card() -> None:
    """With the reason."""
    card = database_card("orders", Figures(None, trouble="gone", is_down=True))
    assert (card["sums"]["ready"], card["warnings"], card["figures"].trouble) == (0, 0, "gone")
