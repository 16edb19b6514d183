"""Commands of ``manage.py``: ``txqueue``."""
