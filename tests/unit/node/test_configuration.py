"""What a node refuses of its settings."""

from pathlib import Path

import pytest

from txqueue.errors import ConfigurationError
from txqueue.node.settings import node_settings
from txqueue.system.settings import Settings


def settings_of(folder: Path, **flags: str) -> Settings:
    """Settings of these flags only."""
    return Settings({"state_dir": str(folder), **flags}, {}, folder)


@pytest.mark.parametrize(
    ("name", "text", "most"),
    [
        ("workers", "1001", 1000),
        ("capacity", "3000000000", 1_000_000),
        ("lease", "3e6", 86400.0),
        ("kill_stuck", "1e9", 31536000.0),
        ("unreadable_for", "1e300", 31536000.0),
        ("result_limit", "1e9", 2**28 - 1),
        ("steps_limit", "1e9", 2**28 - 1),
        ("worker_jobs", "1e10", 10**9),
        ("worker_memory", "1e10", 10**9),
        ("guard_failures", "2000000", 1_000_000),
        ("guard_share", "2", 1.0),
    ],
)
def test_numbers_that_no_node_can_use(tmp_path: Path, name: str, text: str, most: float) -> None:
    """What overflows timers, or the database's numbers and settings, is refused at the start."""
    flag = name.replace("_", "-")
    with pytest.raises(ConfigurationError, match=f"--{flag} is .*, above {most}"):
        node_settings(settings_of(tmp_path, **{name: str(int(float(text)))}), "dbname=a", 0)
    node_settings(settings_of(tmp_path, **{name: str(most)}), "dbname=a", 0)


@pytest.mark.parametrize("name", ["", " ", "a\0b"])
def test_a_name_that_is_none(tmp_path: Path, name: str) -> None:
    """Refused before its socket gets a file of another name."""
    with pytest.raises(ConfigurationError, match=r"^--name is .*, not a name"):
        node_settings(settings_of(tmp_path, name=name), "dbname=a", 0)


@pytest.mark.parametrize(("text", "is_on"), [("true", True), ("1", True), ("False", False)])
def test_the_deploy_guard_is_on_or_off(tmp_path: Path, text: str, is_on: bool) -> None:
    """By default it is off; what is neither is refused."""
    settings = settings_of(tmp_path, deploy_guard=text)
    assert node_settings(settings, "dbname=a", 0).deploy_guard is is_on
    assert not node_settings(settings_of(tmp_path), "dbname=a", 0).deploy_guard
    with pytest.raises(ConfigurationError, match="is 'maybe', not true or false"):
        node_settings(settings_of(tmp_path, deploy_guard="maybe"), "dbname=a", 0)


def test_an_idle_node_sends_three_heartbeats_a_lease(tmp_path: Path) -> None:
    """A longer --poll is refused, with the lease that it takes."""
    taken = node_settings(settings_of(tmp_path, poll="300", lease="900"), "dbname=a", 0)
    assert taken.poll == 300
    assert node_settings(settings_of(tmp_path), "dbname=a", 0).poll is None
    with pytest.raises(ConfigurationError, match=r"give --lease 900, .* or a shorter --poll"):
        node_settings(settings_of(tmp_path, poll="300"), "dbname=a", 0)
