"""The settings of the project, for this process and for nodes."""

from importlib.util import find_spec
from typing import Any

import django
from django.conf import settings
from django.db import connections
from psycopg2.extensions import parse_dsn

HAS_TASKS = find_spec("django.tasks") is not None or find_spec("django_tasks") is not None
APPS = [
    *("django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes"),
    *("django.contrib.messages", "django.contrib.sessions"),
    *("txqueue.django", "tests.django_shop"),
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
PROCESSORS = [
    "django.template.context_processors.request",
    "django.contrib.auth.context_processors.auth",
    "django.contrib.messages.context_processors.messages",
]


def database_of(dsn: str) -> dict[str, Any]:
    """Return a database of Django."""
    parts = parse_dsn(dsn)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts["dbname"],
        "USER": parts["user"],
        "HOST": parts["host"],
        "PORT": parts.get("port", "5432"),
        "DISABLE_SERVER_SIDE_CURSORS": True,
    }


def settings_of(dsn: str) -> dict[str, Any]:
    """Return the settings of the project."""
    backport = ["django_tasks"] if find_spec("django_tasks") is not None else []
    default = {"BACKEND": "txqueue.django.TxqueueBackend", "QUEUES": ["default", "mail"]}
    return {
        "DATABASES": {
            "default": database_of(dsn),
            "lite": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"},
        },
        "INSTALLED_APPS": [*backport, *APPS] if HAS_TASKS else [],
        "TASKS": {"default": default, "second": {**default, "QUEUES": []}},
        "MIDDLEWARE": MIDDLEWARE,
        "ROOT_URLCONF": "tests.django_shop.urls",
        "SECRET_KEY": "of a test",
        "STATIC_URL": "static/",
        "TEMPLATES": [
            {
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "APP_DIRS": True,
                "OPTIONS": {"context_processors": PROCESSORS},
            }
        ],
        # Never overridden by a test: that would set the zone of the whole process.
        "TIME_ZONE": "Europe/Berlin",
        "USE_TZ": True,
        # Its handlers would be those of an application in other tests of this process.
        "LOGGING_CONFIG": None,
    }


def set_up_django(dsn: str) -> None:
    """Name the database to Django, once in a process; another DSN replaces the first."""
    if not settings.configured:
        settings.configure(**settings_of(dsn))
        django.setup()
    connections["default"].settings_dict.update(database_of(dsn))
