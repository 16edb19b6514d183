"""The settings for a node: its database is the one of its DSN."""

import os

from tests.django_shop.configuration import settings_of

globals().update(settings_of(os.environ["TXQUEUE_DSN"]))
