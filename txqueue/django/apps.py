"""The app, as ``INSTALLED_APPS`` names it: ``txqueue.django``."""

from __future__ import annotations

from django.apps import AppConfig
from django.core.checks import Tags, register
from django.db.models.signals import post_migrate

__all__ = ["TxqueueConfig"]


class TxqueueConfig(AppConfig):  # type: ignore[misc]  # Django has no types.
    """txqueue as an app of Django."""

    name = "txqueue.django"
    label = "txqueue"
    verbose_name = "txqueue"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the system checks, and what upgrades the schema of test databases."""
        # Imported late: settings and apps can be used only now.
        from txqueue.adapters.django import note_databases
        from txqueue.django.checks import check_databases, check_settings, migrate_schemas

        note_databases()
        register(check_settings)
        register(check_databases, Tags.database)
        post_migrate.connect(migrate_schemas, sender=self)
