#!/usr/bin/env bash
# croniter: a range of one value, such as 5-5, is every value of the field.
#
# Guess: `5-5` is 5, as in Debian's cron, cronsim and APScheduler; programs that write ranges from two settings make such.
# Seen (croniter 7.0.0): `0 0 * * 5-5` is due on all 28 days of February 2026, `0 0 * * 5` on 4; `5-5 * * * *` is due 60
# times an hour, `5 * * * *` once.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check croniter==7.0.0
"$folder/venv/bin/python" - <<'PYTHON'
from datetime import datetime, timedelta

from croniter import croniter


def count(expression: str, begin: datetime, end: datetime) -> int:
    moments = croniter(expression, begin - timedelta(seconds=1))
    found = 0
    while moments.get_next(datetime) < end:
        found += 1
    return found


begin = datetime(2026, 2, 1)
seen = {
    expression: count(expression, begin, end)
    for expression, end in {
        "0 0 * * 5-5": datetime(2026, 3, 1),
        "0 0 * * 5": datetime(2026, 3, 1),
        "5-5 * * * *": begin + timedelta(hours=1),
        "5 * * * *": begin + timedelta(hours=1),
    }.items()
}
print(seen)
assert list(seen.values()) == [28, 4, 60, 1], seen
PYTHON
