"""What the system tells of processes, the processors they may use, and those that are watched."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import eventually
from txqueue.system.processes import (
    children_of,
    has_ended,
    host_identity,
    open_gate,
    start_gated,
    start_watcher,
    usable_cpus,
)


def test_what_lives_has_not_ended() -> None:
    """This process, for one; and a host has one name as long as it is up."""
    assert not has_ended(os.getpid())
    assert host_identity() == host_identity() != ""


async def test_what_ended_has_ended_before_and_after_its_parent_notices() -> None:
    """A process whose parent has not asked for its status runs nothing any more."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    await eventually(lambda: has_ended(child.pid), 30.0)
    assert child.wait() == 0
    assert has_ended(child.pid)


def test_what_is_hidden_is_not_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process of another account that may not be asked after lives, as far as one can tell."""

    def refused(pid: int, number: int) -> None:
        raise PermissionError(pid, number)

    monkeypatch.setattr(os, "kill", refused)
    assert not has_ended(2**22 + 1)


def test_the_children_of_a_process() -> None:
    """A child is there while it lives."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert child.pid in children_of(os.getpid())
        assert children_of(child.pid) == []
    assert child.pid not in children_of(os.getpid())
    assert children_of(child.pid) == []


def test_a_process_that_ends_while_it_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no children: its folder goes between two steps of the listing."""

    def gone(path: Path, pattern: str) -> list[Path]:
        raise FileNotFoundError(path / pattern)

    monkeypatch.setattr(Path, "glob", gone)
    assert children_of(os.getpid()) == []


V1, V2 = "3:cpu,cpuacct:{}\n2:memory:/other\n", "0::{}\n"


@pytest.fixture(autouse=True)
def eight(monkeypatch: pytest.MonkeyPatch) -> None:
    """An affinity of eight processors, of a machine with more."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)


def machine(root: Path, cgroup: str, **files: str) -> Path:
    """A machine with a process in a cgroup, and with files of cgroups by their paths."""
    for path, text in {"proc/self/cgroup": cgroup, **files}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def quota_v1(folder: str, quota: int) -> dict[str, str]:
    """The files of a quota in a cgroup of version 1."""
    path = f"sys/fs/cgroup/cpu{folder}/cpu.cfs_"
    return {f"{path}quota_us": f"{quota}\n", f"{path}period_us": "100000\n"}


def quota_v2(folder: str, text: str) -> dict[str, str]:
    """The file of a quota in a cgroup of version 2."""
    return {f"sys/fs/cgroup{folder}/cpu.max": f"{text}\n"}


@pytest.mark.parametrize(
    ("cgroup", "files", "cpus"),
    [
        (V2.format("/a/b"), {}, 8),
        (V2.format("/a/b"), quota_v2("/a/b", "max 100000"), 8),
        (V2.format("/a/b"), quota_v2("/a/b", "200000 100000"), 2),
        (V2.format("/a/b"), quota_v2("/a", "150000 100000"), 2),
        (V2.format("/a/b"), quota_v2("/a/b", "400000 100000") | quota_v2("", "10000 100000"), 1),
        (V2.format("/a/b"), quota_v2("/a/b", "6400000 100000"), 8),
        (V2.format("/../../a"), quota_v2("", "300000 100000"), 3),
        (V1.format("/a"), quota_v1("/a", -1), 8),
        (V1.format("/a"), quota_v1("/a", 250_000), 3),
        (V1.format("/docker/of-the-host"), quota_v1("", 200_000), 2),
        (V1.format("/a"), {"sys/fs/cgroup/cpu/a/cpu.cfs_quota_us": "garbage"}, 8),
    ],
)
def test_a_quota_of_the_cgroup_or_of_one_above_it_counts(
    cgroup: str, files: dict[str, str], cpus: int, tmp_path: Path
) -> None:
    """The smallest, rounded up; without one, the affinity."""
    assert usable_cpus(machine(tmp_path, cgroup, **files)) == cpus


def test_a_system_without_affinity_or_cgroups_has_all_processors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as macOS."""
    assert usable_cpus(tmp_path) == 8
    monkeypatch.delattr(os, "sched_getaffinity")
    assert usable_cpus(tmp_path) == 64


PATIENCE = 30


def test_without_a_word_the_program_never_begins(tmp_path: Path) -> None:
    """As when the starting process is killed before there is a watcher."""
    with start_gated(["/usr/bin/touch", str(tmp_path / "begun")]) as process:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(PATIENCE) != 0
    assert not (tmp_path / "begun").exists()


def test_the_program_has_the_number_of_its_process() -> None:
    """So a watcher can get the number before the program starts."""
    command = ["/bin/sh", "-c", "echo $$ && cat"]
    with start_gated(command, stdout=subprocess.PIPE) as process:
        open_gate(process)
        assert process.stdout is not None
        assert int(process.stdout.read()) == process.pid


def test_a_program_that_talks_reads_what_comes_later() -> None:
    """Nothing of it is lost at the gate, and the gate's own line is not seen."""
    with start_gated(["/bin/cat"], stdout=subprocess.PIPE) as process:
        open_gate(process, talks=True)
        said, _ = process.communicate(b"one\ntwo\n", PATIENCE)
    assert said == b"one\ntwo\n"


def test_a_program_that_ended_before_the_gate_is_no_error() -> None:
    """Who owns it sees the status."""
    with start_gated(["/bin/true"]) as process:
        process.kill()
        process.wait(PATIENCE)
        open_gate(process)


def test_a_watcher_acts_when_we_are_gone(tmp_path: Path) -> None:
    """Its standard input closes at the latest then."""
    with start_watcher('read -r _; touch "$1"', str(tmp_path / "acted")) as watcher:
        watcher.communicate(timeout=PATIENCE)
    assert (tmp_path / "acted").exists()
