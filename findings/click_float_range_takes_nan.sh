#!/usr/bin/env bash
# click: FloatRange accepts nan, which is in no range.
#
# Guess: FloatRange(0, 10) refuses each text that is not a number from 0 to 10.
# Seen (click 8.4.2): "11" and "inf" are refused with status 2; "nan" is passed on, as it fails no comparison. So it is
# by FloatRange(0, 10, min_open=True, max_open=True) and by FloatRange(0, 10, clamp=True).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check --quiet install click==8.4.2
"$folder/venv/bin/python" - <<'PY'
import importlib.metadata

import click
from click.testing import CliRunner

RANGES = {
    "closed": click.FloatRange(0, 10),
    "open": click.FloatRange(0, 10, min_open=True, max_open=True),
    "clamped": click.FloatRange(0, 10, clamp=True),
}


def taken(kind, text):
    @click.command()
    @click.option("--rate", type=kind)
    def command(rate):
        click.echo(rate)

    result = CliRunner().invoke(command, ["--rate", text])
    return result.output.strip() if result.exit_code == 0 else f"status {result.exit_code}"


seen = {name: [taken(kind, text) for text in ("5", "11", "inf", "nan")] for name, kind in RANGES.items()}
print(importlib.metadata.version("click"), seen)
assert seen == {
    "closed": ["5.0", "status 2", "status 2", "nan"],
    "open": ["5.0", "status 2", "status 2", "nan"],
    "clamped": ["5.0", "10", "10", "nan"],
}, seen
PY
