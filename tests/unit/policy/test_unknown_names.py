"""What a filter may have meant that no job matches."""

from txqueue.policy.findings.status import unknown_name


def test_the_nearest_come_first_and_the_rest_is_counted() -> None:
    """By their likeness, not by the alphabet."""
    known = ["a", "b", "c", "d", "e", "reports", "mail"]
    said = unknown_name("queue", "report", known, is_all=True)
    assert said is not None
    assert said.startswith("No live job, node or limit has the queue report; there are reports, ")
    assert said.endswith(" and 2 more.")
    said = unknown_name("queue", "report", known, is_all=False)
    assert said is not None
    assert said.endswith(" and at least 2 more.")


def test_a_name_that_exists_is_not_said() -> None:
    """The list is empty for another reason."""
    assert unknown_name("group", "g", ["g"], is_all=True) is None


def test_nothing_of_the_kind() -> None:
    """There is nothing to choose from."""
    assert unknown_name("node", "n", [], is_all=True) == "No node has the name n; there is no node."
