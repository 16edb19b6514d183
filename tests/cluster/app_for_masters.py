"""An application that masters can import and workers cannot."""

import sys

from tests.cluster.app import Noop

__all__ = ["Noop"]

if any("txqueue" in argument and "worker" in argument for argument in sys.orig_argv):
    raise RuntimeError("not for workers")
