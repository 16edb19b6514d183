#!/usr/bin/env bash
# pytest-django: within the teardown of the last test, Django's connections get the real database again.
#
# Guess: a hook wrapper around pytest_runtest_teardown that cleans the database after each test works on the test database, after
# the last test as after the others.
# Seen (pytest-django 4.12.0, pytest 9.2.0, Django 5.2.16): the fixture of the session that made the test database ends inside of the
# teardown of the last test: what follows the wrapper's "yield" there has the name of the real database, and would clean
# that. The names must be read before the "yield".
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check --quiet install django==5.2.16 pytest==9.2.0 pytest-django==4.12.0
cd "$folder"
cat > settings.py <<'PY'
DATABASES = {
    "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "real.db", "TEST": {"NAME": "made_for_tests.db"}}
}
PY
cat > conftest.py <<'PY'
import pytest
from django.db import connection


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_teardown(item):
    before = str(connection.settings_dict["NAME"])
    yield
    with open("names", "a") as file:
        print(item.name, before, connection.settings_dict["NAME"], file=file)
PY
cat > test_two.py <<'PY'
import pytest


@pytest.mark.django_db
def test_first():
    pass


@pytest.mark.django_db
def test_last():
    pass
PY
venv/bin/python -m pytest --quiet --ds=settings
cat names
grep -q "^test_first .*made_for_tests.db .*made_for_tests.db$" names
grep -q "^test_last .*made_for_tests.db .*real.db$" names
