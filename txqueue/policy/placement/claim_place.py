"""Decides, without I/O, where among the ready jobs a claim begins."""

from __future__ import annotations

from datetime import datetime

__all__ = ["FIRST_PLACE", "REWIND", "ClaimPlace", "JobPlace", "earlier"]

# The place of a job among the ready ones: its rank, as text of the server, and its number.
JobPlace = tuple[str, int]
FIRST_PLACE: JobPlace = ("-infinity", 0)
REWIND = 0.1
"""For so many seconds, claims go on at the place that the last one reached, to skip the dead rows
of claimed jobs. A new job of a smaller rank may be claimed that much later. The time is longer
while many ready jobs are of types that only other nodes run, or an old snapshot keeps many dead
rows; then claims that left no job go on as well, for as long as a look back is worth.
"""
# Claims that read much which the node may not take spend no more than this part of the time on it,
# but look back once in LONGEST_REWIND seconds.
SEARCH_SHARE, LONGEST_REWIND = 0.1, 1.0
# The rank that a claim returns if it left jobs because a tenant's or queue's share was used up.
ANYWHERE = FIRST_PLACE[0]


class ClaimPlace:
    """Where claims go on, and when one goes back to the first rank.

    Attributes:
        rewound_at: When the last claim from the first rank began.
    """

    def __init__(self) -> None:
        self.rewound_at = float("-inf")
        self._reached: JobPlace | None = None
        self._has_left = False
        self._interval = 0.0
        # How long the last claim from the first rank searched.
        self._searched = 0.0
        # From when on a claim goes back to jobs that have become ready.
        self._goes_back_from = float("-inf")

    @property
    def is_searching(self) -> bool:
        """Whether a claim from the first rank had to read much that the node may not take."""
        return self._interval > 0

    @property
    def rewind_due(self) -> float:
        """When a claim goes back to the first rank."""
        least = REWIND if self._has_left else 0.0
        return self.rewound_at + max(least, self._interval)

    @property
    def look_due(self) -> float:
        """When to look from the first rank on again if no jobs were left."""
        return self.rewound_at + max(REWIND, self._interval)

    def rewind(self) -> None:
        """Have the next claim begin at the first rank."""
        self.rewound_at = float("-inf")

    def next(self, now: float, freed: JobPlace | None) -> JobPlace | None:
        """Return where a claim begins; None for the first rank.

        Args:
            now: The time.
            freed: The first job that has become ready since the last claim.
        """
        if self._reached is None or now >= self.rewind_due:
            self.rewound_at = now
            return None
        if freed is not None and self.is_searching and now >= self._goes_back_from:
            return earlier(self._reached, freed)
        return self._reached

    def claimed(
        self,
        begun: JobPlace | None,
        reached: JobPlace | None,
        passed: JobPlace | None,
        *,
        searched: float,
        took_jobs: bool,
        now: float,
    ) -> None:
        """Note a claim.

        Args:
            begun: Where it began.
            reached: Where it left ready jobs; None if it left none.
            passed: Where the next one may go on if this one searched.
            searched: The seconds that it spent on what the node may not take.
            took_jobs: Whether it took jobs.
            now: The time after it.
        """
        if begun is None:
            confirmed = confirmed_search(searched, self._searched, took_jobs=took_jobs)
            self._interval = rewind_interval(confirmed)
            self._searched = searched
        else:
            self._goes_back_from = now + rewind_interval(searched)
        self._has_left = reached is not None
        if reached is not None:
            self._reached = None if reached[0] == ANYWHERE else reached
        elif not self.is_searching:
            self._reached = None
        elif begun is None:
            self._reached = passed or self._reached
        elif not searched:
            # Others that become ready may be near the place to which this claim went back.
            self._reached = begun


def rewind_interval(searched: float) -> float:
    """Return the seconds between two claims that read the ready jobs from the first one on.

    Args:
        searched: The seconds that the last such claim spent on what the node may not take; 0 if
            it had not to search.
    """
    return min(searched / SEARCH_SHARE, LONGEST_REWIND)


def confirmed_search(searched: float, before: float, *, took_jobs: bool) -> float:
    """Return the seconds that a claim is believed to have spent on what the node may not take.

    On a busy server a claim that takes jobs is often interrupted for as long, which would make jobs
    of a smaller rank wait. What must be read past is there again at the next look back.

    Args:
        searched: The seconds by the claim.
        before: The seconds by the last claim from the first job on before it.
        took_jobs: Whether the claim took jobs.
    """
    return min(searched, before) if took_jobs else searched


def earlier(one: JobPlace, other: JobPlace) -> JobPlace:
    """Return the first of two places; the first of all if their ranks cannot be compared."""
    try:
        return min(one, other, key=_key)
    except (TypeError, ValueError):
        # Not each moment of the server is one of Python, nor in this form behind every pooler.
        return FIRST_PLACE


def _key(place: JobPlace) -> tuple[datetime, int]:
    return datetime.fromisoformat(place[0]), place[1]
