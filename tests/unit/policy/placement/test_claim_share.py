"""How much of the room a claim asks for after one that took too long."""

from txqueue.policy.placement.claim_plan import ClaimShare
from txqueue.policy.placement.room import Room

ROOM = Room(free=1_000, limit=1_000, largest=50, capacity=100, workers=10, ahead=300)


def test_a_claim_that_took_too_long_is_followed_by_less_room() -> None:
    """But as much as the heaviest job needs."""
    share = ClaimShare(["a"])
    assert share.of(ROOM) is ROOM
    share.shrink()
    assert (share.of(ROOM).free, share.of(ROOM).ahead, share.next_queues()) == (125, 125, ["a"])
    share.shrink()
    assert share.of(ROOM).free == 50


def test_quick_claims_ask_for_more_again() -> None:
    """Slow ones do not."""
    share = ClaimShare(["a"])
    share.shrink()
    share.note_time(5.0)
    assert share.parts == 8
    for _ in range(3):
        share.note_time(0.1)
    assert not share.is_part
