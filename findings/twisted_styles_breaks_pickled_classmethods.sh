#!/usr/bin/env bash
# Twisted: importing twisted.persisted.styles, as twistd does, breaks the pickles of class methods in the whole process.
#
# Guess: a module that is only imported changes nothing of pickle; what could be pickled before still can.
# Seen (Twisted 26.10.0, CPython 3.11 and 3.13): the module registers its own form of methods in copyreg. It takes the class
# of a method's `self` for the one that defines it, which for a class method is the metaclass: the pickle is written without an
# error, and reading it raises AttributeError. Objects whose __reduce__ returns a class method, as tasks of Django 6.1 do,
# can be stored and never be read again.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check --quiet install twisted==26.10.0
"$folder/venv/bin/python" - <<'PY'
import pickle
import sys
from fractions import Fraction

import twisted

method = Fraction.from_float
assert pickle.loads(pickle.dumps(method))(0.5) == Fraction(1, 2)

import twisted.application.app

assert "twisted.persisted.styles" in sys.modules
stored = pickle.dumps(method)
try:
    pickle.loads(stored)
except AttributeError as error:
    print(twisted.__version__, "cannot be read:", error)
else:
    raise AssertionError("it can be read")
PY
