"""txqueue for Django: an app, and the backend `TxqueueBackend` of Django's tasks.

Tasks are those of Django itself, or of the package ``django-tasks`` where Django has none yet.
"""

from typing import TYPE_CHECKING

from txqueue.late_imports import late_imports

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

if not TYPE_CHECKING:
    # Django imports an app before its settings can be used, and a project may have no tasks at all.
    __getattr__ = late_imports(
        __name__,
        {
            "backend": "TxqueueBackend",
            "framework": "AttemptFailed OtherTransaction TaskCancelled",
            "items": "policy work",
            "runs": "RunningContext",
        },
    )
