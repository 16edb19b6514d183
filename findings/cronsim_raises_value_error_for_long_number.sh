#!/usr/bin/env bash
# cronsim: a field that is a number of thousands of digits raises ValueError, which is no CronSimError.
#
# Guess: CronSim refuses each bad expression with CronSimError, so `except CronSimError` is enough for a user's input.
# Seen (cronsim 2.8, Python 3.11): a minute or day out of range is refused with CronSimError, also one of 4300 digits.
# One of 4301 digits raises the bare ValueError of int() (its limit on the digits of a text), which is not a
# CronSimError. A step of 4300 digits is even accepted, and one of 4301 raises ValueError too.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check --quiet install cronsim==2.8
"$folder/venv/bin/python" - <<'PY'
import datetime
import importlib.metadata

import cronsim


def refusal(expression):
    try:
        cronsim.CronSim(expression, datetime.datetime(2026, 1, 1))
    except Exception as error:
        return type(error).__name__
    return "accepted"


seen = {
    f"{digits} digits in {name}": refusal(form.format("9" * digits))
    for name, form in {"minute": "{} * * * *", "step": "*/{} * * * *", "day": "* * {} * *"}.items()
    for digits in (2, 4300, 4301)
}
print(importlib.metadata.version("cronsim"), seen)
assert not issubclass(cronsim.CronSimError, ValueError)
assert list(seen.values()) == [
    *["CronSimError", "CronSimError", "ValueError"],
    *["accepted", "accepted", "ValueError"],
    *["CronSimError", "CronSimError", "ValueError"],
], seen
PY
