"""The checker is not blind: each deliberate bug is caught, and the promise that it breaks named."""

import pytest

from tests.faults.conftest import Players
from tests.faults.mutations import MUTATIONS, UNMUTATED


@pytest.mark.parametrize("name", MUTATIONS)
def test_mutation(name: str, mutants: Players) -> None:
    """A build with this bug does not pass."""
    outcome = mutants.outcome(f"{name}.json")
    assert "error" not in outcome, outcome["error"]
    skipped = [scenario["skipped"] for scenario in outcome["scenarios"] if scenario["skipped"]]
    if skipped:
        pytest.skip(skipped[0])
    assert MUTATIONS[name].is_caught(outcome), [s["violations"][:5] for s in outcome["scenarios"]]


@pytest.mark.parametrize("name", [UNMUTATED])
def test_the_same_without_a_mutation(name: str, mutants: Players) -> None:
    """A copy without a bug passes some of the very same scenarios: it is not the copying."""
    outcome = mutants.outcome(f"{name}.json")
    assert "error" not in outcome, outcome["error"]
    assert outcome["violations"] == 0, [each["violations"] for each in outcome["scenarios"]]
