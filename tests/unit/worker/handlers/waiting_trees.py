"""Handlers made of random trees of steps and waits, and what a run of one must come to.

A wait ends only once a run is given what it waits for, and a step ends by itself. So a run of a
tree is done, has failed or waits, and for what, by the tree alone: whatever the order in which its
branches go on, and however long the handler does something else meanwhile.
"""

from __future__ import annotations

import asyncio
import builtins
import time
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence, Set
from concurrent import futures
from contextlib import suppress
from itertools import count
from threading import Barrier
from typing import Any, Final

from attrs import define, frozen
from hypothesis import strategies as st
from twisted.internet.defer import (
    CancelledError,
    Deferred,
    DeferredList,
    FirstError,
    TimeoutError,
    gatherResults,
)

from tests.waiting import pause, running_reactor
from txqueue import Discard, Next, RunningJob, Runtime, Snooze, ThreadJob, WorkItem

ENDS: Final = {
    "value": "done",
    "next": "next",
    "discard": "cancelled",
    "snooze": "snooze",
    "then": "done",
}
"""How a handler may end, and the outcome."""
ANY: Final = "any"
"""Stands for all waits."""
# Longer than a wait leaves to others of its run.
NAP: Final = 0.03
LEAVES: Final = ("step", "bad", "wait", "sleep", "call")
AWAITING: Final = ("group", "race", "timeout", "results")
LEAVING: Final = ("all", "race and leave")
BRANCHES: Final = (*LEAVING, *AWAITING, "sequence", "catch")


class BrokenStep(Exception):
    """What a step of a tree fails by."""


@frozen
class Node:
    """A part of a handler.

    Attributes:
        kind: One of `LEAVES` or `BRANCHES`, or ``nap``: something that is no step.
        parts: The parts of a branch.
        name: The name of a step or a wait.
    """

    kind: str
    parts: tuple[Node, ...] = ()
    name: str = ""

    def named(self, numbers: Iterator[int]) -> Node:
        """Return the same with names."""
        parts = tuple(part.named(numbers) for part in self.parts)
        return Node(self.kind, parts, f"{self.kind} {next(numbers)}")


@frozen
class Program:
    """A handler: its parts, one after the other, and how it ends."""

    parts: tuple[Node, ...]
    end: str


def programs(*, in_thread: bool = False) -> st.SearchStrategy[Program]:
    """Return handlers."""
    kinds = [kind for kind in BRANCHES if not (in_thread and kind in AWAITING)]
    leaf = st.sampled_from(LEAVES).map(Node)
    tree = st.recursive(
        leaf,
        lambda inner: st.builds(
            Node, st.sampled_from(kinds), st.lists(inner, min_size=1, max_size=3).map(tuple)
        ),
        max_leaves=8,
    )
    parts = st.lists(st.one_of(tree, tree, st.just(Node("nap"))), min_size=1, max_size=4)
    return st.builds(_program, parts, st.sampled_from(list(ENDS)))


def _program(parts: Sequence[Node], end: str) -> Program:
    numbers = count()
    return Program(tuple(part.named(numbers) for part in parts), end)


# What a run must come to ---------------------------------------------------------------------


@frozen
class End:
    """How a part of a run ends.

    Attributes:
        how: ``done``, ``failed`` or ``waits``.
        waits: What it waits for.
        kept: Which of these go on if it is cancelled.
        left: What else may wait: what no part awaits, and none has cancelled.
    """

    how: str
    waits: Set[str] = frozenset()
    kept: Set[str] = frozenset()
    left: Set[str] = frozenset()


def expected(program: Program, given: Set[str]) -> End:
    """Return how a run ends.

    Args:
        program: The handler.
        given: The names of the waits that are over.
    """
    return _in_turn(program.parts, given)


def _expected(node: Node, given: Set[str]) -> End:
    if node.kind in ("wait", "sleep", "call") and node.name not in given:
        return End("waits", frozenset({node.name}))
    if not node.parts:
        return End("failed" if node.kind == "bad" else "done")
    if node.kind in ("sequence", "catch"):
        end = _in_turn(node.parts, given)
        return End("done", left=end.left) if (node.kind, end.how) == ("catch", "failed") else end
    return _together(node.kind, [_expected(part, given) for part in node.parts])


def _in_turn(parts: Iterable[Node], given: Set[str]) -> End:
    left: Set[str] = frozenset()
    for part in parts:
        end = _expected(part, given)
        left |= end.left
        if end.how != "done":
            return End(end.how, end.waits, end.kept, left)
    return End("done", left=left)


def _together(kind: str, ends: Sequence[End]) -> End:
    hows = {end.how for end in ends}
    waits = frozenset[str]().union(*(end.waits for end in ends))
    # `asyncio.wait` leaves what it awaits when it is cancelled.
    is_race = kind in ("race", "race and leave")
    kept = waits if is_race else frozenset().union(*(end.kept for end in ends))
    left = frozenset[str]().union(*(end.left for end in ends))
    if kind != "timeout" and "waits" in hows and hows <= _WAITING[kind]:
        # A handler that goes on with the results may begin further waits.
        return End("waits", waits, kept, left | ({ANY} if kind == "results" else set()))
    left |= waits if kind in LEAVING else kept
    return End("failed" if "failed" in hows and kind in ("all", "group") else "done", left=left)


# A branch waits if its parts do no more than that.
_WAITING: Final = {
    "all": {"waits", "done"},
    "group": {"waits", "done"},
    "race": {"waits"},
    "race and leave": {"waits"},
    "results": {"waits", "done", "failed"},
}


# How a handler does it -------------------------------------------------------------------------


def work() -> None:
    """Do the work of a step."""


def fail() -> None:
    """Fail as a step."""
    raise BrokenStep


@define
class Child(WorkItem):
    """What a handler calls."""

    work_type = "unit.trees.child"

    def perform(self, job: RunningJob) -> None:
        """Do nothing."""


class Handler:
    """A handler that awaits, in either runtime."""

    def __init__(self, job: RunningJob) -> None:
        self.job = job

    async def perform(self, program: Program) -> Any:
        """Run a program to its end."""
        for part in program.parts:
            await self.run(part)
        return ended(self.job, program.end)

    async def run(self, node: Node) -> None:
        """Run a part."""
        match node.kind:
            case "step" | "bad":
                await self.job.step(node.name, work if node.kind == "step" else fail)
            case "wait":
                await self.job.wait_for(node.name)
            case "sleep":
                await self.job.sleep(node.name, 3600)
            case "call":
                await self.job.call(node.name, Child())
            case "nap":
                await self.nap()
            case "sequence" | "catch":
                await self._in_turn(node)
            case "all" | "group":
                await self.together(map(self.run, node.parts), is_group=node.kind == "group")
            case "results":
                await self.results(map(self.run, node.parts))
            case "timeout":
                slow = self.job.step(node.name, self.never)
                with suppress(BrokenStep):
                    await self.abandon(
                        self.together([slow, *map(self.run, node.parts)], is_group=True)
                    )
            case _:
                with suppress(BrokenStep):
                    await self.first(map(self.run, node.parts), is_left="leave" in node.kind)

    async def _in_turn(self, node: Node) -> None:
        try:
            for part in node.parts:
                await self.run(part)
        except BrokenStep:
            if node.kind != "catch":
                raise

    async def nap(self) -> None:
        """Do what is no step."""
        raise NotImplementedError

    async def never(self) -> None:
        """Do the work of a step that does not end."""
        raise NotImplementedError

    async def together(self, runs: Iterable[Any], *, is_group: bool) -> None:
        """Await some, and cancel the others when one fails if they are a group."""
        raise NotImplementedError

    async def results(self, runs: Iterable[Any]) -> None:
        """Await all of some, and raise no error of theirs."""
        raise NotImplementedError

    async def first(self, runs: Iterable[Any], *, is_left: bool) -> None:
        """Await the first of some, and cancel the others unless they are left."""
        raise NotImplementedError

    async def abandon(self, run: Coroutine[Any, Any, None]) -> None:
        """Cancel one after a moment."""
        raise NotImplementedError


class InTwisted(Handler):
    """A handler in Twisted."""

    async def nap(self) -> None:
        """Do what is no step."""
        await pause(NAP)

    async def never(self) -> None:
        """Do the work of a step that does not end."""
        await Deferred()

    async def together(self, runs: Iterable[Any], *, is_group: bool) -> None:
        """Await some, and cancel the others when one fails if they are a group."""
        begun = [Deferred.fromCoroutine(run) for run in runs]
        try:
            await gatherResults(begun, consumeErrors=True)
        except BaseException as error:
            if is_group:
                cancel(begun)
            _raise(error)

    async def results(self, runs: Iterable[Any]) -> None:
        """Await all of some, and raise no error of theirs."""
        await DeferredList([Deferred.fromCoroutine(run) for run in runs], consumeErrors=True)

    async def first(self, runs: Iterable[Any], *, is_left: bool) -> None:
        """Await the first of some, and cancel the others unless they are left."""
        begun = [Deferred.fromCoroutine(run) for run in runs]
        try:
            await DeferredList(
                begun, fireOnOneCallback=True, fireOnOneErrback=True, consumeErrors=True
            )
        except FirstError as error:
            _raise(error)
        finally:
            if not is_left:
                cancel(begun)

    async def abandon(self, run: Coroutine[Any, Any, None]) -> None:
        """Cancel one after a moment."""
        with suppress(TimeoutError):
            await Deferred.fromCoroutine(run).addTimeout(NAP, running_reactor())


class Here(InTwisted):
    """The same without a reactor, where no time passes."""

    async def nap(self) -> None:
        """Do nothing."""

    async def abandon(self, run: Coroutine[Any, Any, None]) -> None:
        """Cancel one after it has begun."""
        begun = Deferred.fromCoroutine(run)
        begun.addErrback(lambda failure: failure.trap(BrokenStep, CancelledError)).cancel()
        await begun


def cancel(begun: Iterable[Deferred[Any]]) -> None:
    """Cancel what has not ended."""
    for each in begun:
        each.cancel()


def _raise(error: BaseException) -> None:
    if isinstance(error, FirstError):
        error.subFailure.raiseException()
    raise error


class InAsyncio(Handler):
    """A handler in asyncio."""

    async def nap(self) -> None:
        """Do what is no step."""
        await asyncio.sleep(NAP)

    async def never(self) -> None:
        """Do the work of a step that does not end."""
        await asyncio.Event().wait()

    async def together(self, runs: Iterable[Any], *, is_group: bool) -> None:
        """Await some, and cancel the others when one fails if they are a group."""
        if not is_group:
            await asyncio.gather(*runs)
            return
        try:
            async with asyncio.TaskGroup() as group:
                for run in runs:
                    group.create_task(run)
        except* BrokenStep:
            raise BrokenStep from None

    async def results(self, runs: Iterable[Any]) -> None:
        """Await all of some, and raise no error of theirs."""
        await asyncio.gather(*runs, return_exceptions=True)

    async def first(self, runs: Iterable[Any], *, is_left: bool) -> None:
        """Await the first of some, and cancel the others unless they are left."""
        begun = [asyncio.ensure_future(run) for run in runs]
        done, pending = await asyncio.wait(begun, return_when=asyncio.FIRST_COMPLETED)
        if not is_left:
            for each in pending:
                each.cancel()
        for error in [each.exception() for each in done]:
            if error is not None:
                raise error

    async def abandon(self, run: Coroutine[Any, Any, None]) -> None:
        """Cancel one after a moment."""
        with suppress(builtins.TimeoutError):
            async with asyncio.timeout(NAP):
                await run


class InThread:
    """A handler in a thread, which cannot cancel others."""

    def __init__(self, job: ThreadJob) -> None:
        self.job = job

    def perform(self, program: Program) -> Any:
        """Run a program to its end."""
        for part in program.parts:
            self.run(part)
        return ended(self.job, program.end)

    def run(self, node: Node) -> None:
        """Run a part."""
        match node.kind:
            case "step" | "bad":
                self.job.step(node.name, work if node.kind == "step" else fail)
            case "wait":
                self.job.wait_for(node.name)
            case "sleep":
                self.job.sleep(node.name, 3600)
            case "call":
                self.job.call(node.name, Child())
            case "nap":
                time.sleep(NAP)
            case "all":
                self._wait_for(node, futures.FIRST_EXCEPTION)
            case "race and leave":
                with suppress(BrokenStep):
                    self._wait_for(node, futures.FIRST_COMPLETED)
            case _:
                self._in_turn(node)

    def _in_turn(self, node: Node) -> None:
        try:
            for part in node.parts:
                self.run(part)
        except BrokenStep:
            if node.kind != "catch":
                raise

    def _begin(self, node: Node, all_begin: Barrier) -> None:
        all_begin.wait()
        self.run(node)

    def _wait_for(self, node: Node, until: str) -> None:
        pool = futures.ThreadPoolExecutor(len(node.parts))
        # A wait leaves little time to threads that have not begun.
        all_begin = Barrier(len(node.parts), timeout=30)
        begun = [pool.submit(self._begin, part, all_begin) for part in node.parts]
        pool.shutdown(wait=False)
        for each in futures.wait(begun, return_when=until).done:
            each.result()


def ended(job: Any, end: str) -> Any:
    """End a handler."""
    match end:
        case "next":
            return Next(Child())
        case "discard":
            return Discard("done with")
        case "snooze":
            return Snooze(60)
        case "then":
            job.then(Child())
    return "value"


HANDLERS: Final[Mapping[str, tuple[Runtime, type[Any]]]] = {
    "here": (Runtime.TWISTED, Here),
    "twisted": (Runtime.TWISTED, InTwisted),
    "asyncio": (Runtime.ASYNCIO, InAsyncio),
    "thread": (Runtime.THREAD, InThread),
}
