"""txqueue for Django: an app, and the backend `TxqueueBackend` of Django's tasks.

Tasks are those of Django itself, or of the package ``django-tasks`` where Django has none yet.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from txqueue.django.backend import TxqueueBackend
    from txqueue.django.framework import AttemptFailed, OtherTransaction, TaskCancelled
    from txqueue.django.items import policy, work
    from txqueue.django.runs import RunningContext

__all__ = [
    "AttemptFailed",
    "OtherTransaction",
    "RunningContext",
    "TaskCancelled",
    "TxqueueBackend",
    "policy",
    "work",
]

# Django imports an app before its settings can be used, and a project may have no tasks at all.
_HOMES = {
    "AttemptFailed": "txqueue.django.framework",
    "OtherTransaction": "txqueue.django.framework",
    "RunningContext": "txqueue.django.runs",
    "TaskCancelled": "txqueue.django.framework",
    "TxqueueBackend": "txqueue.django.backend",
    "policy": "txqueue.django.items",
    "work": "txqueue.django.items",
}

if not TYPE_CHECKING:
    # Hidden from type checkers, which would take any name for one of this module.
    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value = getattr(import_module(_HOMES[name]), name)
        return value
