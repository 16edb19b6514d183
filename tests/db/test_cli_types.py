"""``txqueue types``: the published schemas, and the check of waiting jobs by those of new code."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from attrs import define

from tests.db.conftest import Cli
from tests.db.masters import Master
from txqueue import WorkItem
from txqueue.model.payload_schema import payload_schema
from txqueue.node.settings import policy_row

SECRET = "s3cret"
NEW = """
from attrs import define
from txqueue import WorkItem

@define
class Parcel(WorkItem):
    work_type = "types.parcel"
    number: int
    street: str

    def perform(self, job):
        pass
"""


@define
class Parcel(WorkItem):
    """A parcel."""

    work_type = "types.parcel"
    number: int | str

    def perform(self, job: Any) -> None:
        """Do nothing."""


@define
class Sealed(WorkItem):
    """What only workers read."""

    work_type = "types.sealed"
    encrypted = True
    number: int

    def perform(self, job: Any) -> None:
        """Do nothing."""


@pytest.fixture
def published(node: Master) -> Master:
    """A database in which a node has published the classes."""
    node.value("select txqueue.publish(%s)", json.dumps([policy_row(Parcel), policy_row(Sealed)]))
    return node


def put(node: Master, work_type: str, payload: Any) -> int:
    """Enqueue a job; return its number."""
    job_id: int = node.value("select txqueue.enqueue(%s, %s)", work_type, json.dumps(payload))
    return job_id


def test_the_schema_of_a_type(
    published: Master, txqueue: Any, shown: Any, dsn: str, cli: Cli
) -> None:
    """The one that nodes have published, in JSON or as a document for other tools."""
    made = payload_schema(Parcel)
    stored = "select schema from txqueue.work_type where work_type = 'types.parcel'"
    assert published.value(stored) == made
    [row] = txqueue("types", "types.parcel", "--schema")["types"]
    assert row == {"work_type": "types.parcel", "schema": made}
    assert json.loads(shown("types", "types.parcel", "--schema")) == made
    assert "types.sealed" in shown("types")
    assert "no node has published" in cli("--dsn", dsn, "types", "t", "--schema", status=1).err


def test_a_node_without_schemas_leaves_those_of_others(published: Master) -> None:
    """One of the release before registers beside newer ones."""
    published.publish("types.parcel", policy={"attempts": 7})
    stored = "select {} from txqueue.work_type where work_type = 'types.parcel'"
    assert published.value(stored.format("policy ->> 'attempts'")) == "7"
    assert published.value(stored.format("schema")) == payload_schema(Parcel)


def test_the_check_of_new_code(
    published: Master, dsn: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It counts the jobs that the new class cannot read, and shows no payload."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("txqueue.cli.types._PAGE", 2)
    monkeypatch.setattr("txqueue.model.work_item._registry", {})
    monkeypatch.delitem(sys.modules, "parcels_next", raising=False)
    Path("parcels_next.py").write_text(NEW)
    new = cli("types", "--schema", "--app", "parcels_next", "--json").out
    Path("new.json").write_text(new)
    good = {"number": 1, "street": "a"}
    put(published, "types.parcel", good)
    assert "All of 1 waiting job" in cli("--dsn", dsn, "types", "--check", "new.json").out
    first = put(published, "types.parcel", {"number": 1})
    put(published, "types.parcel", {"number": 2})
    text = put(published, "types.parcel", {"number": SECRET, "street": SECRET})
    put(published, "types.sealed", {"encrypted": SECRET})
    said = cli("--dsn", dsn, "--json", "types", "--check", "new.json", status=1)
    assert json.loads(said.out)["types"] == [
        {
            "work_type": "types.parcel",
            "is_known": True,
            "has_schema": True,
            "jobs": 4,
            "encrypted": 0,
            "misfits": [
                {"what": "expected integer @ $.number", "jobs": 1, "job_id": text},
                {"what": "required field missing @ $.street", "jobs": 2, "job_id": first},
            ],
        },
        {
            "work_type": "types.sealed",
            "is_known": False,
            "has_schema": False,
            "jobs": 1,
            "encrypted": 1,
            "misfits": [],
        },
    ]
    people = " ".join(cli("--dsn", dsn, "types", "--check", "new.json", status=1).out.split())
    assert f"required field missing @ $.street: 2 jobs, such as {first}" in people
    assert "types.sealed: the file lacks it; 1 waiting job would never run" in people
    assert "4 waiting jobs of 5 cannot be read." in people
    assert SECRET not in said.out + people


def test_types_that_are_not_checked(published: Master, dsn: str, cli: Cli, tmp_path: Path) -> None:
    """Others than the one that is named, and those of the new code without a schema."""
    file = tmp_path / "new.json"
    put(published, "types.parcel", {})
    for schemas, words, status, said in (
        ([], (), 1, "types.parcel: the file lacks it"),
        ([], ("types.sealed",), 0, "There is no waiting job to check."),
        ([{"work_type": "types.parcel", "schema": None}], (), 0, "the file has no schema of it"),
    ):
        file.write_text(json.dumps({"types": schemas}))
        out = cli("--dsn", dsn, "types", *words, "--check", str(file), status=status).out
        assert said in " ".join(out.split())


@pytest.mark.parametrize("text", ["{", "[]", '{"types": [{"work_type": "t", "schema": 1}]}'])
def test_a_file_without_schemas_is_refused(text: str, cli: Cli, tmp_path: Path) -> None:
    """Before the database is asked; the error tells how to make one."""
    (tmp_path / "new.json").write_text(text)
    said = cli("types", "--check", str(tmp_path / "new.json"), status=2)
    assert "make it with txqueue types --schema --app MODULE --json" in said.err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ((), "the schema of t refers to nope, which it lacks"),
        (("--app", "newer"), "drop --schema and --app"),
        (("--schema",), "drop --schema and --app"),
    ],
)
def test_what_a_check_would_not_use_is_refused(
    words: tuple[str, ...], complaint: str, cli: Cli, tmp_path: Path
) -> None:
    """A schema that lacks a part would fit all payloads; other schemas would not be read."""
    schema = {"properties": {"a": {"anyOf": [{"$ref": "#/$defs/nope"}]}}, "$defs": {"a": {}}}
    file = tmp_path / "new.json"
    file.write_text(json.dumps({"types": [{"work_type": "t", "schema": schema}]}))
    said = cli("types", "--check", str(file), *words, status=2)
    assert complaint in " ".join(said.err.split())
