"""Imports the application's modules into a worker process or the template of them."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence

from txqueue.system.application_files import import_app, imported_application
from txqueue.wire.worker_commands import CannotImport

__all__ = ["import_application"]


def import_application(modules: Sequence[str], dsn: str) -> None:
    """Import the modules that define the work items.

    Args:
        modules: The names of the modules.
        dsn: The DSN of the node's database; may be empty.

    Raises:
        CannotImport: When a module cannot be imported; the traceback is printed.
    """
    if dsn:
        # A handler that connects by itself uses the database of its job.
        os.environ["TXQUEUE_DSN"] = dsn
    if "" not in sys.path:
        sys.path.insert(0, "")
    for module in modules:
        try:
            import_app(module)
        except BaseException as error:
            traceback.print_exc()
            error_text = f"{module}: {type(error).__name__}: {error}"
            raise CannotImport(error_text[:1000]) from None
    # Now, because the files may be replaced later; a forked worker has the template's answer.
    imported_application(*modules)
