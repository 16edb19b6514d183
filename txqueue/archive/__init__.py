"""History as Parquet files: written before a day is dropped, and read again.

Only this package uses pyarrow, the extra ``archive``. Internal.
"""
