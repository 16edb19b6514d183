"""What a node refuses of its settings."""

from pathlib import Path

import pytest

from txqueue.errors import ConfigurationError
from txqueue.node.configuration import node_settings
from txqueue.system.settings import Settings


def settings_of(folder: Path, **flags: str) -> Settings:
    """Settings of these flags only."""
    return Settings({"state_dir": str(folder), **flags}, {}, folder)


def test_an_idle_node_sends_three_heartbeats_a_lease(tmp_path: Path) -> None:
    """A longer --poll is refused, with the lease that it takes."""
    taken = node_settings(settings_of(tmp_path, poll="300", lease="900"), "dbname=a", 0)
    assert taken.poll == 300
    assert node_settings(settings_of(tmp_path), "dbname=a", 0).poll is None
    with pytest.raises(ConfigurationError, match=r"give --lease 900, .* or a shorter --poll"):
        node_settings(settings_of(tmp_path, poll="300"), "dbname=a", 0)
