#!/usr/bin/env bash
# croniter: a step over all days of the month is a restricted day, so the day of the week matches instead of as well.
#
# Guess: `0 0 */2 * mon` is due on Mondays with an odd date. Vixie cron and its successors, such as Debian's, take
# a field that begins with `*` as no restriction, so both fields must match; people write it to say "every other Monday".
# Seen (croniter 7.0.0, cronsim 2.8): in November 2026 croniter is due on each odd day and on each Monday, 18 days, as if
# it were `0 0 1-31/2 * mon`; cronsim, which follows Debian's cron, on the 9th and the 23rd. day_or=False makes both
# match, but in all expressions, also in `0 0 13 * fri`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check --quiet install croniter==7.0.0 cronsim==2.8
"$folder/venv/bin/python" - <<'PY'
import datetime
import importlib.metadata

import croniter
import cronsim

EXPRESSION = "0 0 */2 * mon"
start = datetime.datetime(2026, 10, 31, 12)
end = datetime.datetime(2026, 12, 1)


def of_croniter(**options):
    until = end - datetime.timedelta(seconds=1)
    return [moment.day for moment in croniter.croniter_range(start, until, EXPRESSION, **options)]


def of_cronsim():
    found = []
    for moment in cronsim.CronSim(EXPRESSION, start):
        if moment >= end:
            return found
        found.append(moment.day)


either, both = of_croniter(), of_croniter(day_or=False)
version = importlib.metadata.version("croniter")
print(version, "croniter:", either, "day_or=False:", both, "cronsim:", of_cronsim())
mondays = {2, 9, 16, 23, 30}
assert set(either) == set(range(1, 31, 2)) | mondays, either
assert both == of_cronsim() == [9, 23], (both, of_cronsim())
PY
