"""A folder for PYTHONPATH: who finds it cannot import OpenSSL, as without `txqueue[tls]`.

Twisted imports OpenSSL wherever it is installed, which is a fifth of the start of each process. The
tests start thousands.
"""

from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent
