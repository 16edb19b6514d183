"""An application that a master can import and no worker can: a release that went wrong."""

from __future__ import annotations

import sys

if "txqueue.worker.service" in sys.modules:
    raise ImportError("what this release needs is missing on this host")
