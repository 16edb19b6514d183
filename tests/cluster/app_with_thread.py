"""An application whose import starts a thread, as exporters of traces and metrics do."""

import threading

from tests.cluster.app import Noop

__all__ = ["Noop"]

threading.Thread(target=threading.Event().wait, daemon=True).start()
