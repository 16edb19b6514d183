"""The app, as ``INSTALLED_APPS`` names it: ``txqueue.django``."""

from __future__ import annotations

from django.apps import AppConfig

__all__ = ["TxqueueConfig"]


class TxqueueConfig(AppConfig):  # type: ignore[misc]  # Django has no types.
    """txqueue as an app of Django."""

    name = "txqueue.django"
    label = "txqueue"
    verbose_name = "txqueue"
