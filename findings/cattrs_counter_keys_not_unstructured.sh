#!/usr/bin/env bash
# cattrs: Counter[Decimal] is not unstructured by the type of its keys by 26.1.0, and is by 26.2.0.
#
# Guess: a Counter is a dict, so with a hook that makes a Decimal a string, the keys of Counter[Decimal] become strings.
# Seen (cattrs 25.2.0, 26.1.0 and 26.2.0, both Converter and the json preconf converter): dict[Decimal, int] is
# {"1.5": 1} in all three. Counter[Decimal], by itself and in a list or deque, keeps Decimal("1.5") as its key in the
# first two, which json.dumps refuses with TypeError; 26.2.0 makes it "1.5". All structure it as an equal Counter.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
for version in 25.2.0 26.1.0 26.2.0; do
    "$folder/venv/bin/pip" --disable-pip-version-check --quiet install --target "$folder/$version" "cattrs==$version"
done
cat >"$folder/unstructure.py" <<'PY'
import importlib.metadata
import json
import sys
from collections import Counter, deque
from decimal import Decimal

import cattrs
from cattrs.preconf.json import make_converter

expected = {"25.2.0": Decimal("1.5"), "26.1.0": Decimal("1.5"), "26.2.0": "1.5"}[sys.argv[1]]
assert importlib.metadata.version("cattrs") == sys.argv[1]
one = Counter([Decimal("1.5")])


def is_json(value):
    try:
        json.dumps(value)
    except TypeError:
        return False
    return True


for converter in (cattrs.Converter(), make_converter()):
    converter.register_unstructure_hook(Decimal, str)
    converter.register_structure_hook(Decimal, lambda value, _: Decimal(value))
    seen = {
        "dict": converter.unstructure(dict(one), unstructure_as=dict[Decimal, int]),
        "Counter": converter.unstructure(one, unstructure_as=Counter[Decimal]),
        "list": converter.unstructure([one], unstructure_as=list[Counter[Decimal]]),
        "deque": converter.unstructure(deque([one]), unstructure_as=deque[Counter[Decimal]]),
    }
    print(sys.argv[1], seen)
    counter = {expected: 1}
    assert list(seen.values()) == [{"1.5": 1}, counter, [counter], [counter]], seen
    assert [is_json(value) for value in seen.values()] == [True] + [expected == "1.5"] * 3, seen
    assert converter.structure([{"1.5": 1}], deque[Counter[Decimal]]) == deque([one])
PY
for version in 25.2.0 26.1.0 26.2.0; do
    PYTHONPATH="$folder/$version" "$folder/venv/bin/python" "$folder/unstructure.py" "$version"
done
