"""The dashboard: web pages on which operators see the queue and act on it.

Internal; started by ``twistd txqueue --web`` and ``txqueue web``, with the extra ``web``.
"""
