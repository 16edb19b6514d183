"""An application that only a master can import, as after a broken deployment."""

from __future__ import annotations

import sys

if "txqueue.worker.service" in sys.modules:
    raise ImportError("what this release needs is missing on this host")
