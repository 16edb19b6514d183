#!/usr/bin/env bash
# Celery: a crontab with a day of the month and a day of the week is due if both match; cron's is if either does.
#
# Guess: crontab() reads its five fields as cron does, so that an entry of a crontab can be copied field by field, with
# `0 0 13 * fri` due on every 13th and on every Friday.
# Seen (Celery 5.7.0): crontab(minute=0, hour=0, day_of_month="13", day_of_week="fri") is due on Friday, the 13th only:
# in 2027 once, in August. The same fields are due on 64 days of that year for croniter 7.0.0, and in cron.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check --quiet install celery==5.7.0 croniter==7.0.0
"$folder/venv/bin/python" - <<'PY'
import datetime

import celery
import croniter
from celery import Celery
from celery.schedules import crontab

app = Celery("days")
start = datetime.datetime(2026, 12, 31, 12, tzinfo=datetime.UTC)
end = datetime.datetime(2028, 1, 1, tzinfo=datetime.UTC)


def of_celery():
    due, now = [], start
    while True:
        fields = {"minute": 0, "hour": 0, "day_of_month": "13", "day_of_week": "fri"}
        schedule = crontab(**fields, app=app, nowfun=lambda: now)
        now += schedule.remaining_estimate(now)
        if now >= end:
            return due
        due.append(f"{now:%a %d %b}")


def of_cron():
    moments = croniter.croniter_range(start, end - datetime.timedelta(seconds=1), "0 0 13 * fri")
    return [f"{moment:%a %d %b}" for moment in moments]


seen = of_celery()
print(celery.__version__, "Celery:", seen, "croniter:", len(of_cron()))
assert seen == ["Fri 13 Aug"], seen
assert len(of_cron()) == 64, of_cron()
PY
