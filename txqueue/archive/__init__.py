"""History as Parquet files: written before a day is dropped, and read again.

Only this package knows pyarrow, the extra ``archive``.
"""

from txqueue.archive.depot import Depot, opened
from txqueue.archive.reading import archived_jobs
from txqueue.archive.writing import Archived, archive

__all__ = ["Archived", "Depot", "archive", "archived_jobs", "opened"]
