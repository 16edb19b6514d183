"""Which transactions are open, by what the server answers."""

import pytest

from txqueue.store.node.run_functions import MOST_UNLISTED, open_transactions

ROUND = 2**32


@pytest.mark.parametrize(
    ("answer", "numbers"),
    [
        ("10:10::7", set()),
        ("10:10::9", {10, 11}),
        ("8:12:8,10:11", {8, 10, 12, 13}),
        (f"{ROUND + 5}:{ROUND + 5}::3", {ROUND + 5}),
        (f"{3 * ROUND - 1}:{3 * ROUND - 1}::-2", {3 * ROUND - 1, 3 * ROUND}),
        (f"{ROUND // 2 + 9}:{ROUND // 2 + 9}::{8 - ROUND // 2}", {ROUND // 2 + 9, ROUND // 2 + 10}),
    ],
)
def test_transactions_are_listed_or_later_than_all_that_have_ended(
    answer: str, numbers: set[int]
) -> None:
    """Also where the server's short numbers begin anew."""
    assert open_transactions(answer) == numbers


def test_of_a_great_many_the_last_are_known() -> None:
    """As of a transaction with a million savepoints."""
    assert open_transactions("10:10::1000007") == set(range(1_000_010 - MOST_UNLISTED, 1_000_010))
