"""Imports the application's modules into a master, and says where an import failed."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from typing import Final

from txqueue.errors import ConfigurationError
from txqueue.model.work_item import known_work_types
from txqueue.system.application_files import import_app

__all__ = ["import_work_items"]

# The folder of this package, whose files are not the application's.
_OWN: Final = str(Path(__file__).parents[1])


def import_work_items(modules: list[str]) -> None:
    """Import the modules that define the work items, from the current folder first.

    Raises:
        ConfigurationError: When one of them cannot be imported, or they define no work items.
    """
    if not modules:
        raise ConfigurationError(
            "no --app is given", "name the modules that define your work items: --app myapp.work"
        )
    if "" not in sys.path:
        sys.path.insert(0, "")
    for module in modules:
        try:
            import_app(module)
        except (Exception, SystemExit) as error:
            raise ConfigurationError(
                f"--app {module} cannot be imported: {type(error).__name__}: {error}"
                + _place(error),
                "fix the module, or run where it can be imported (PYTHONPATH)",
            ) from None
    if not known_work_types():
        raise ConfigurationError(
            f"--app {', '.join(modules)} defines no work items", "subclass txqueue.WorkItem in it"
        )


def _place(error: BaseException) -> str:
    """Return the file and line of the application at which an import failed."""
    if isinstance(error, SyntaxError):
        # A syntax error's message has the place already.
        return ""
    frames = traceback.extract_tb(error.__traceback__)
    app_frames = [frame for frame in frames if not frame.filename.startswith(("<", _OWN))]
    app_frames = [
        frame for frame in app_frames if f"{os.sep}importlib{os.sep}" not in frame.filename
    ]
    return f" ({app_frames[-1].filename}:{app_frames[-1].lineno})" if app_frames else ""
