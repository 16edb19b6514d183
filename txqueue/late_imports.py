"""The names of a package whose modules are imported when the names are first used."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def late_imports(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return what a package calls for a name that it does not have, its ``__getattr__``.

    It stands under ``if not TYPE_CHECKING``: type checkers would take any name for one of the
    package.

    Args:
        package: The package's name.
        modules: The names that each module has, with blanks between them.
    """
    homes = {name: module for module, names in modules.items() for name in names.split()}

    def imported(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return imported
