"""The deliberate bugs that the checker must find still fit the code."""

import pytest

from tests.faults.mutations import MUTATIONS, ROOT, edited_text


@pytest.mark.parametrize("name", MUTATIONS)
def test_each_edit_of_a_mutation_has_its_place(name: str) -> None:
    """Whatever is renamed, the text that a mutation replaces stands in its file, once."""
    for path, before, _ in MUTATIONS[name].edits:
        assert edited_text(ROOT, path).count(before) == 1, path
