"""How many processors a process may use."""

import os
from pathlib import Path

import pytest

from txqueue.system.processes import usable_cpus

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
