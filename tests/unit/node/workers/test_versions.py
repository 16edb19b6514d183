"""What the workers of a node run, when they were started at different times."""

from pathlib import Path

from txqueue.node.workers.starter import RunVersion, WorkerVersions

OLD, NEW = "mail#1", "mail#2"
SMS = "sms#1"


def running(
    *types: str, application: str = "aa", files: dict[str, list[int]] | None = None
) -> RunVersion:
    """What a worker runs."""
    return RunVersion(application, frozenset(types), files or {})


def test_a_claim_names_the_versions_that_all_workers_have() -> None:
    """A job that one of them could not read may be for another one."""
    versions = WorkerVersions(["mail", "sms"], [OLD, SMS])
    assert versions.claimable == ["mail", "sms"]
    versions.add(1, running(OLD, SMS))
    assert versions.claimable == ["mail", "sms", OLD, SMS]
    versions.add(2, running(NEW, SMS))
    assert versions.claimable == ["mail", "sms", SMS]
    versions.remove(1)
    assert versions.claimable == ["mail", "sms", NEW, SMS]


def test_a_heartbeat_reports_versions_that_were_not_published() -> None:
    """Those of types that the node serves, and which applications run."""
    versions = WorkerVersions(["mail"], [OLD])
    versions.add(1, running(OLD, SMS))
    assert versions.measured() == {"applications": ["aa"], "is_outdated": False}
    versions.add(2, running(NEW, application="bb"))
    assert versions.measured() == {
        "applications": ["aa", "bb"],
        "is_outdated": False,
        "type_versions": [OLD, NEW],
    }


def test_files_that_are_newer_than_what_runs(tmp_path: Path) -> None:
    """Until the worker that has the old ones is gone."""
    versions = WorkerVersions(["mail"], [OLD])
    versions.add(1, running(OLD, files={str(tmp_path / "gone.py"): [1, 1]}))
    assert versions.measured()["is_outdated"]
    versions.remove(1)
    versions.add(2, running(OLD))
    assert not versions.measured()["is_outdated"]
