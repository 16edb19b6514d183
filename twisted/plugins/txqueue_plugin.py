"""Tells `twistd` and `twist` that txqueue is there; what it does is loaded only when asked for.

This folder must have no `__init__.py`: it joins Twisted's own package of plugins.
"""

from twisted.application.service import ServiceMaker

txqueue = ServiceMaker(
    "txqueue",
    "txqueue.tap",
    "A node of a distributed work queue on PostgreSQL: a master and its worker processes",
    "txqueue",
)
