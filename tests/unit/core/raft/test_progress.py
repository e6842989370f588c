"""What a leader concludes from the fetches it gets."""

from __future__ import annotations

from chronik.core.raft.progress import PeerProgress, Progress
from chronik.core.raft.quorum import Voters

THREE = Voters((1, 2, 3))


def test_what_a_majority_has_on_disk_is_safe() -> None:
    progress = Progress(leader=1)

    assert progress.safe_offset(THREE, 10) == -1
    progress.note_fetch(2, 4, 10, now_ms=0)
    assert progress.safe_offset(THREE, 10) == 4
    assert progress.safe_offset(THREE, 3) == 3, "the leader itself counts only up to what it has synced"
    progress.note_fetch(3, 9, 10, now_ms=0)
    assert progress.safe_offset(THREE, 10) == 9


def test_an_observer_makes_nothing_safe() -> None:
    progress = Progress(leader=1)

    progress.note_fetch(4, 10, 10, now_ms=0)

    assert progress.safe_offset(THREE, 10) == -1


def test_a_leader_that_is_no_voter_any_more_does_not_count_itself() -> None:
    """Raft, section 4.2.2."""
    progress = Progress(leader=1)
    progress.note_fetch(2, 7, 10, now_ms=0)

    assert progress.safe_offset(Voters((2, 3)), 10) == -1
    assert progress.heard_ms(Voters((2, 3)), now_ms=50) == -1


def test_a_replica_that_lost_its_disk_has_only_what_it_says_now() -> None:
    progress = Progress(leader=1)
    progress.note_fetch(2, 8, 10, now_ms=0)

    progress.note_fetch(2, 0, 10, now_ms=1)

    assert progress.safe_offset(THREE, 10) == 0


def test_a_majority_was_there_when_the_slowest_of_its_fastest_was() -> None:
    progress = Progress(leader=1)
    five = Voters((1, 2, 3, 4, 5))
    progress.note_fetch(2, 0, 0, now_ms=100)
    assert progress.heard_ms(five, now_ms=500) == -1

    progress.note_alive(3, now_ms=200)

    assert progress.heard_ms(five, now_ms=500) == 100
    assert progress.heard_ms(Voters((1,)), now_ms=500) == 500, "who is alone has its majority"


def test_contact_never_goes_back() -> None:
    progress = Progress(leader=1)
    progress.note_fetch(2, 0, 0, now_ms=100, contact_ms=90)

    progress.note_fetch(2, 0, 0, now_ms=200, contact_ms=-1)

    assert (progress.of(2).fetched_ms, progress.of(2).contact_ms) == (200, 90)


def test_who_fetches_a_snapshot_is_there_but_has_nothing_of_the_log() -> None:
    progress = Progress(leader=1)

    progress.note_alive(2, now_ms=100)

    assert progress.of(2) == PeerProgress(fetched_ms=100)


def test_a_replica_has_caught_up_when_it_has_all_there_was_at_its_last_fetch() -> None:
    """KIP-836: under a steady load a replica never has all there is, though it never falls behind."""
    progress = Progress(leader=1)
    progress.note_fetch(2, 0, 5, now_ms=100)
    assert progress.of(2).caught_up_ms == -1

    progress.note_fetch(2, 5, 9, now_ms=200)
    assert progress.of(2).caught_up_ms == 100
    progress.note_fetch(2, 8, 12, now_ms=300)
    assert progress.of(2).caught_up_ms == 100, "it had 8 of the 9 there were"
    progress.note_fetch(2, 12, 12, now_ms=400)
    assert progress.of(2).caught_up_ms == 400


def test_successors_are_ranked_by_how_much_of_the_log_they_have() -> None:
    progress = Progress(leader=1)
    progress.note_fetch(2, 3, 9, now_ms=0)
    progress.note_fetch(4, 9, 9, now_ms=0)

    assert progress.ranked(Voters((1, 2, 3, 4))) == (4, 2, 3)


def test_silent_observers_are_forgotten_and_voters_are_not() -> None:
    progress = Progress(leader=1)
    for node_id, now_ms in ((2, 10), (7, 10), (5, 20)):
        progress.note_fetch(node_id, 1, 1, now_ms)
    assert progress.observers(THREE) == (5, 7)

    progress.forget_silent(THREE, before_ms=20)

    assert progress.observers(THREE) == (5,)
    assert progress.of(2).fetched_ms == 10
