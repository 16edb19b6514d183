#!/usr/bin/env bash
# cronsim: an hour of clock change is lost or repeated by whether a field begins with "*", and half hours are lost.
#
# Guess: a fixed hour (`*/30 2 * * *`) runs once a day at clock changes as Debian's cron does, however its minutes are
# written; and an hourly job runs in each hour, whatever the length of the change.
# Seen (cronsim 2.8, tzdata 2026.1): `0,30 2 * * *` in Berlin runs once on the spring day, at 3:00, and twice on the
# autumn day, as on any other; `*/30 2 * * *` has no run on the spring day and four on the autumn day. `0 */2 * * *` runs
# twice at 2:00 in autumn. On Lord Howe, where the change is of half an hour, `45 * * * *` runs once at 1:45, which clocks show twice.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check --quiet install cronsim==2.8 tzdata==2026.1
"$folder/venv/bin/python" - <<'PY'
import datetime
import importlib.metadata
import zoneinfo

import cronsim

zoneinfo.reset_tzpath(())


def runs(expression, zone, day):
    zone = zoneinfo.ZoneInfo(zone)
    first = datetime.datetime.fromisoformat(f"{day}T00:00").replace(tzinfo=zone)
    found = []
    for moment in cronsim.CronSim(expression, first - datetime.timedelta(minutes=1)):
        if moment.date() > first.date():
            return found
        found.append(f"{moment:%H:%M}")


seen = {
    f"{expression} {zone} {day}": runs(expression, zone, day)
    for expression, zone, day in [
        ("0,30 2 * * *", "Europe/Berlin", "2026-03-29"),
        ("*/30 2 * * *", "Europe/Berlin", "2026-03-29"),
        ("0,30 2 * * *", "Europe/Berlin", "2026-10-25"),
        ("*/30 2 * * *", "Europe/Berlin", "2026-10-25"),
        ("0 */2 * * *", "Europe/Berlin", "2026-10-25"),
        ("45 * * * *", "Australia/Lord_Howe", "2026-04-05"),
    ]
}
print(importlib.metadata.version("cronsim"), seen)
spring, spring_star, autumn, autumn_star, even, half = seen.values()
assert (spring, spring_star) == (["03:00"], []), seen
assert (autumn, autumn_star) == (["02:00", "02:30"], ["02:00", "02:30"] * 2), seen
assert even[:4] == ["00:00", "02:00", "02:00", "04:00"], seen
assert half.count("01:45") == 1, seen
PY
