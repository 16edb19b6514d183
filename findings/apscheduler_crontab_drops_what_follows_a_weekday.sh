#!/usr/bin/env bash
# APScheduler: from_crontab() drops what follows the name of a weekday, so mon#1 is every Monday.
#
# Guess: `mon#1` is the first Monday, as elsewhere, or an error, as `1#1` is.
# Seen (APScheduler 3.11.3): `0 0 * * mon#1` is due on the 2nd, 9th, 16th and 23rd of February 2026, as `0 0 * * mon` is;
# `0 0 * * 1#1` raises ValueError.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check apscheduler==3.11.3
"$folder/venv/bin/python" - <<'PYTHON'
from datetime import datetime, timedelta, timezone

from apscheduler.triggers.cron import CronTrigger


def days(expression: str) -> list[int]:
    trigger = CronTrigger.from_crontab(expression, timezone=timezone.utc)
    moment, found = datetime(2026, 2, 1, tzinfo=timezone.utc), []
    while (due := trigger.get_next_fire_time(None, moment)).month == 2:
        found.append(due.day)
        moment = due + timedelta(seconds=1)
    return found


try:
    numbered = str(days("0 0 * * 1#1"))
except ValueError as error:
    numbered = type(error).__name__
seen = days("0 0 * * mon#1"), days("0 0 * * mon"), numbered
print(seen)
assert seen == ([2, 9, 16, 23], [2, 9, 16, 23], "ValueError"), seen
PYTHON
