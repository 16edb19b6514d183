"""The highly available cluster of the scenarios: its files, and what is measured of it."""

from pathlib import Path

import pytest

from txqueue_torture.cluster_files import DYNAMIC, etcd_command, haproxy_file, member_file
from txqueue_torture.needs import CLUSTER, NEEDS, lacking
from txqueue_torture.probe import longest_gap
from txqueue_torture.scenario import known_scenarios


@pytest.mark.parametrize(
    ("moments", "gap"),
    [
        ([9.0, 10.5, 14.5, 15.0, 19.5, 20.0], 4.5),
        ([20.0, 14.5, 10.5, 9.0], 5.5),
        ([4.0, 19.0], 15.0),
        ([9.9, 10.1, 21.0], 9.9),
        ([], 10.0),
    ],
)
def test_the_longest_gap(moments: list[float], gap: float) -> None:
    """From the last event before the period at most to its end, in whatever order they come."""
    assert longest_gap(moments, 10.0, 20.0) == pytest.approx(gap)


def test_a_member_is_reached_through_its_proxies_only() -> None:
    """Others get the addresses of proxies; etcd is never asked for its own."""
    made = member_file(
        "m1", Path("/c/m1"), Path("/bin"), ports=(1, 2), proxies=(11, 12, 13), dynamic=DYNAMIC
    )
    assert made["postgresql"]["listen"] == "127.0.0.1:1"
    assert made["postgresql"]["connect_address"] == "127.0.0.1:11"
    assert made["restapi"] == {"listen": "127.0.0.1:2", "connect_address": "127.0.0.1:12"}
    assert made["etcd3"] == {"host": "127.0.0.1:13", "use_proxies": True}
    assert made["bootstrap"]["dcs"]["synchronous_mode"] is True


def test_patroni_accepts_the_times() -> None:
    """Patroni makes times shorter than these longer by itself, and the sum must be at most ttl."""
    ttl, loop_wait, retry = (DYNAMIC[name] for name in ("ttl", "loop_wait", "retry_timeout"))
    assert (ttl, loop_wait, retry) == (20, 1, 3)
    assert loop_wait + 2 * retry <= ttl


def test_haproxy_asks_the_api_of_each_member() -> None:
    """A line for each member, with both of its ports."""
    text = haproxy_file(5000, [("m1", 1, 11), ("m2", 2, 12)])
    assert "bind 127.0.0.1:5000" in text
    assert "server m1 127.0.0.1:1 check port 11" in text
    assert "server m2 127.0.0.1:2 check port 12" in text


def test_etcd_listens_on_this_host_only() -> None:
    """Every address is that of the loopback interface."""
    urls = [word for word in etcd_command(Path("/c/etcd"), 1, 2) if "://" in word]
    assert urls
    assert all("http://127.0.0.1:" in url for url in urls)


def test_a_machine_without_patroni_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason names each missing program."""
    for name in ("PATRONI", "ETCD", "HAPROXY"):
        monkeypatch.setenv(f"TXQUEUE_TEST_{name}", "/nowhere")
    assert lacking(["cluster"]) == (
        "needs Patroni, etcd and HAProxy: no program patroni, etcd, haproxy"
    )
    assert set(CLUSTER) <= NEEDS.keys()


def test_the_family_of_the_cluster() -> None:
    """Its scenarios are named alike, and no other one needs the cluster."""
    known = known_scenarios().values()
    assert {it.name for it in known if it.is_on_cluster} == {
        it.name for it in known if it.name.startswith("ha_")
    }
