"""The deploy guard: holds work types on a version of the application that fails as no older one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import define, field

from txqueue.node.state.lease import Lease
from txqueue.node.state.periodic import Periodic, Wakeups
from txqueue.policy.findings.obstacles import HeldType
from txqueue.store.node.functions import StoredFunctions

if TYPE_CHECKING:
    from txqueue.node.settings import NodeSettings
    from txqueue.node.workers.starter import WorkerVersions

# Seconds between two looks, and while no worker runs.
EVERY, UNTIL_WORKERS = 3.0, 0.5
# Of more nodes than this, each looks more seldom.
LOOKING = 8


@define(eq=False, repr=False, slots=False)
class DeployGuard(Periodic):
    """Looks how the versions that the workers run fail, and claims no jobs of held types.

    Args:
        clock: Times the looks.
        functions: The stored functions.
        lease: The node's lease; without it the guard does not look.
        versions: Tell what the workers run; they get what is held.
        settings: Have how many failures hold a type, and which share of its runs they must be.
        wakeups: Have the claimer's alarm, and tell how many nodes there are.
    """

    name = "deploy guard"

    _functions: StoredFunctions
    _lease: Lease
    _versions: WorkerVersions
    _settings: NodeSettings
    _wakeups: Wakeups
    _known: frozenset[HeldType] = field(init=False, default=frozenset())

    def __attrs_post_init__(self) -> None:
        self._versions.hold(frozenset())

    async def step(self) -> float | None:
        """Look once, and give back what held types have failed."""
        identity, applications = self._lease.identity, self._versions.applications
        if identity is None or not applications:
            return UNTIL_WORKERS
        held = await self._functions.guard_versions(
            identity.incarnation,
            applications,
            self._versions.work_types,
            self._settings.guard_failures,
            self._settings.guard_share,
        )
        self._note([each for each in held if each.application in applications])
        if held and await self._functions.return_held():
            return 0.0
        return self._wakeups.upkeep(EVERY * max(1.0, self._wakeups.nodes / LOOKING))

    def _note(self, held: list[HeldType]) -> None:
        """Tell what is held since the last look, and what no longer is."""
        types, before = frozenset(each.work_type for each in held), self._versions.held or ()
        for each in held:
            if each not in self._known:
                self.log.warn("{held}", held=each)
        self._known = frozenset(held)
        self._versions.hold(types)
        if released := sorted({*before} - types):
            self.log.info("released: {types}", types=", ".join(released))
            self._wakeups.claimer.ring()
