"""Writes days of history as Parquet files before they are dropped, and reads these files.

Only this package uses pyarrow, the extra ``archive``. Internal.
"""
