"""Python imports this at the start of a process: see the package."""

import sys

sys.modules["OpenSSL"] = None  # type: ignore[assignment]  # which makes an import of it fail
