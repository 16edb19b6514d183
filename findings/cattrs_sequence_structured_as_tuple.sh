#!/usr/bin/env bash
# cattrs: a Sequence[int] is structured as a list by 25.1.1, and as a tuple by 25.2.0.
#
# Guess: a minor release leaves the type of a structured value alone, and a JSON array becomes a list.
# Seen (cattrs 25.1.1 and 25.2.0, both Converter and the json preconf converter): structure([1, 2], Sequence[int]) is
# [1, 2] in the one and (1, 2) in the other, for typing.Sequence and collections.abc.Sequence alike. So it is no longer
# equal to the list it was made from. MutableSequence[int] and list[int] stay lists.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
for version in 25.1.1 25.2.0; do
    "$folder/venv/bin/pip" --disable-pip-version-check --quiet install --target "$folder/$version" "cattrs==$version"
done
cat >"$folder/structure.py" <<'PY'
import collections.abc
import importlib.metadata
import sys
import typing

import cattrs
from cattrs.preconf.json import make_converter

expected = {"25.1.1": [1, 2], "25.2.0": (1, 2)}[sys.argv[1]]
assert importlib.metadata.version("cattrs") == sys.argv[1]
for converter in (cattrs.Converter(), make_converter()):
    seen = {
        "typing.Sequence": converter.structure([1, 2], typing.Sequence[int]),
        "collections.abc.Sequence": converter.structure([1, 2], collections.abc.Sequence[int]),
        "MutableSequence": converter.structure([1, 2], collections.abc.MutableSequence[int]),
        "list": converter.structure([1, 2], list[int]),
    }
    print(sys.argv[1], seen)
    assert list(seen.values()) == [expected, expected, [1, 2], [1, 2]], seen
PY
for version in 25.1.1 25.2.0; do
    PYTHONPATH="$folder/$version" "$folder/venv/bin/python" "$folder/structure.py" "$version"
done
