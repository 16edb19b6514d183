"""Every scenario in its fast form: the checker has nothing to say, and each fault happened."""

import os

import pytest

from tests.faults.conftest import REQUIRE, Players
from txqueue_torture.scenario import known_scenarios

ON_CLUSTER = ("ha_crashed",)
"""The scenarios with Patroni that tests play, as each takes most of a minute."""


PLAYED = [
    name for name, each in known_scenarios().items() if name in ON_CLUSTER or not each.is_on_cluster
]


@pytest.mark.parametrize("name", PLAYED)
def test_scenario(name: str, scenes: Players) -> None:
    """Nothing is lost, nothing runs twice without a cause, and so on: see the checker."""
    outcome = scenes.outcome(f"{name}/outcome.json")
    if outcome["skipped"]:
        # What no package brings, such as a file system of one's own, may be lacking in any case.
        if os.environ.get(REQUIRE) and " install " in outcome["skipped"]:
            pytest.fail(f"skipped, and {REQUIRE} is set: {outcome['skipped']}")
        pytest.skip(outcome["skipped"])
    said = [f"{each['invariant']}: {each['text']}" for each in outcome["violations"]]
    assert not said, "\n".join([*said, *outcome["evidence"], f"records: {scenes.folder / name}"])
