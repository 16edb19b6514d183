"""Calls of stored functions name their arguments, so that no two can be mistaken for each other."""

import re
from pathlib import Path
from typing import Final

import txqueue

MODULES: Final = sorted(Path(txqueue.__file__).parent.rglob("*.py"))
MARK: Final = r"%s(?:::[\w ]+(?:\[\])?)?"
# Strings that are concatenated over several lines are read as one.
SPLIT: Final = re.compile(r'"\s*\n\s*f?"')
UNNAMED: Final = re.compile(rf"schema\}}\.(\w+)\(\s*{MARK}(?:,\s*{MARK}){{4,}}")


def test_more_than_four_arguments_are_passed_by_name() -> None:
    """In all modules, as UPGRADING promises that parameters keep their names."""
    assert UNNAMED.findall("{schema}.end(%s, %s::bigint[], %s, %s::double precision[], %s)")
    texts = {path.name: SPLIT.sub("", path.read_text("utf-8")) for path in MODULES}
    found = {name: UNNAMED.findall(text) for name, text in texts.items()}
    assert {name: calls for name, calls in found.items() if calls} == {}
