"""An application that no worker can import, as after a broken deployment; a master can."""

from __future__ import annotations

import sys

if "txqueue.worker.master_link" in sys.modules:
    raise ImportError("what this release needs is missing on this host")
