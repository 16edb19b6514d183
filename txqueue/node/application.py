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

# What Django raises where a module of a project is imported before the project is set up.
_NOT_SET_UP: Final = ("ImproperlyConfigured", "AppRegistryNotReady")

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
                _remedy(module, error),
            ) from None
    if not known_work_types():
        raise ConfigurationError(
            f"--app {', '.join(modules)} defines no work items", "subclass txqueue.WorkItem in it"
        )


def _remedy(module: str, error: BaseException) -> str:
    """Return how to name what was meant, if the error shows that; else how to get it imported."""
    if type(error).__module__.startswith("django.") and type(error).__name__ in _NOT_SET_UP:
        return (
            "if it is of a Django project, give --app txqueue.django, which sets the project up and"
            " imports the tasks of its apps, with DJANGO_SETTINGS_MODULE"
        )
    if (meant := _meant(module)) != module and isinstance(error, ImportError | TypeError):
        return f"name a module as import does, without a path, .py or a function: --app {meant}"
    if " " in module:
        return f"join several modules by commas: --app {','.join(module.split())}"
    return "fix the module, or run where it can be imported (PYTHONPATH)"


def _meant(module: str) -> str:
    """Return the module's name in what may be a path, or names a member of it."""
    path = module.partition(":")[0].removeprefix("./").removesuffix(".py").strip("/")
    return path.replace("/", ".") or module


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
