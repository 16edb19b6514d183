"""The settings of the shop; its database is the one of TXQUEUE_DSN, as its nodes'."""

import os
from importlib.util import find_spec

from psycopg2.extensions import parse_dsn

_database = parse_dsn(os.environ["TXQUEUE_DSN"])
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _database["dbname"],
        "USER": _database.get("user", ""),
        "PASSWORD": _database.get("password", ""),
        "HOST": _database.get("host", ""),
        "PORT": _database.get("port", ""),
    }
}
INSTALLED_APPS = ["django.contrib.contenttypes", "examples.django_shop", "txqueue.django"]
if find_spec("django.tasks") is None:  # Before Django 6, the package django-tasks has them.
    INSTALLED_APPS.append("django_tasks")
TASKS = {
    "default": {"BACKEND": "txqueue.django.TxqueueBackend", "QUEUES": ["default", "mail"]},
}
ROOT_URLCONF = "examples.django_shop.urls"
ALLOWED_HOSTS = ["127.0.0.1", "testserver"]
SECRET_KEY = "of an example"
TIME_ZONE = "Europe/Berlin"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
