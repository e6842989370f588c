"""A seeded world of a few Raft machines with a bad network, bad clocks and hosts that die.

Time jumps from event to event. After every event the promises of Raft are checked (figure 3 of the paper): election
safety, log matching, leader completeness, state machine safety. A history has two parts: faults for a while, then none,
and then a leader must emerge and what it is given must become safe everywhere.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from random import Random

from chronik.core.errors import Refused
from chronik.core.raft.messages import FetchSnapshotAnswer, Message, RaftFetchAnswer
from chronik.core.raft.ready import ElectionState, RaftSettings, Ready
from tests.unit.core.raft.fakes import Crashed, Entry, FakeLog, Host, SeededChance, Snapshots

FAULTY_MS = 4_000
CALM_MS_MAX = 30_000
FETCH_PATIENCE_MS = 500
FETCH_PAUSE_MS = 150
DATA_AT_A_FETCH_MAX = 3
SYNC_MS_MAX = 100
MISFORTUNES = {
    "write": 45,
    "crash": 5,
    "crash of a leader": 5,
    "cut": 8,
    "clock jump": 15,
    "snapshot": 12,
    "change": 40,
    "resign": 2,
    "leader gone": 8,
    "disk lost": 4,
}


class World:
    """The hosts, the network between them, and what they have promised so far."""

    def __init__(self, seed: int, voter_count: int, observer_count: int = 0) -> None:
        self.random = Random(seed)
        self.now_ms = 0
        self.is_calm = False
        self.events: list[tuple[int, int, Callable[[], None]]] = []
        self.event_count = 0
        self.value_count = 0
        ids = range(1, voter_count + observer_count + 1)
        voters = tuple(ids)[:voter_count]
        self.hosts = {i: Host(i, FakeLog(voters), SeededChance(seed * 100 + i), RaftSettings()) for i in ids}
        self.clock_rate = {i: self.random.uniform(0.9, 1.1) for i in ids}
        self.clock_start = {i: self.random.randrange(5000) for i in ids}
        self.cut_links: dict[tuple[int, int], bool] = {}
        self.fetch_until: dict[int, int] = dict.fromkeys(ids, 0)
        self.leaders: dict[int, int] = {}
        self.safe: list[Entry] = []
        self.snapshots: Snapshots = {}
        self.plan_number = dict.fromkeys(ids, 0)
        self.checked_watermark = dict.fromkeys(ids, 0)
        self.checked_leader = dict.fromkeys(ids, (0, 0))
        self.count: Counter[str] = Counter()  # what happened, so that a test can tell that it did
        for host in self.hosts.values():
            host.saved = ElectionState(is_new=True)
            host.die = self._dies
            host.restart(self.local_ms(host))

    # --- time and events

    def local_ms(self, host: Host) -> int:
        return int(self.clock_start[host.node_id] + self.now_ms * self.clock_rate[host.node_id])

    def at(self, delay_ms: int, do: Callable[[], None]) -> None:
        self.event_count += 1
        heapq.heappush(self.events, (self.now_ms + delay_ms, self.event_count, do))

    def run_until(self, end_ms: int, is_done: Callable[[], bool] = lambda: False) -> None:
        while self.events and self.events[0][0] <= end_ms and not is_done():
            self.now_ms, _, do = heapq.heappop(self.events)
            do()
        self.now_ms = max(self.now_ms, end_ms) if not is_done() else self.now_ms

    def _dies(self, stage: str) -> bool:
        return not self.is_calm and self.random.random() < 0.002

    # --- hosts

    def act(self, host: Host, act: Callable[[int], Ready], cargo: tuple[Entry, ...] = ()) -> None:
        """Let the machine do something, and the host what follows from it."""
        if not host.is_up:
            return
        try:
            ready = act(self.local_ms(host))
            self.count["cuts"] += ready.truncate_to is not None
            self.count["installs"] += ready.install is not None
            host.carry_out(ready, cargo, self.snapshots)
            if ready.take or ready.append or ready.truncate_to is not None or ready.install is not None:
                host.carry_out(host.raft.log_grew(self.local_ms(host)))
                self.at(self.random.randrange(1, SYNC_MS_MAX), lambda: self.sync(host))
        except Crashed:
            self.crash(host)
            return
        self.check(host)
        self.send_all(host)
        self.fetch(host)
        self.plan_tick(host)

    def plan_tick(self, host: Host) -> None:
        deadline_ms = host.raft.next_deadline_ms()
        if deadline_ms is None:
            deadline_ms = self.local_ms(host) + 500
        wait_ms = max(1, int((deadline_ms - self.local_ms(host)) / self.clock_rate[host.node_id]) + 1)
        number = self.plan_number[host.node_id] = self.plan_number[host.node_id] + 1

        def tick() -> None:
            if self.plan_number[host.node_id] == number:
                self.act(host, host.raft.tick)

        self.at(wait_ms, tick)

    def sync(self, host: Host) -> None:
        if host.is_up and host.log.synced_offset < host.log.end_offset:
            host.log.sync()
            self.act(host, host.raft.log_grew)

    def fetch(self, host: Host) -> None:
        if self.now_ms < self.fetch_until[host.node_id] or (envelope := host.raft.next_fetch()) is None:
            return
        self.fetch_until[host.node_id] = self.now_ms + FETCH_PATIENCE_MS
        self.at(FETCH_PATIENCE_MS, lambda: self.fetch(host) if host.is_up else None)
        self.send(host.node_id, envelope.to, envelope.message, ())

    def crash(self, host: Host) -> None:
        kept_offset = self.random.randint(host.log.synced_offset, host.log.end_offset)
        self.count["crashes"] += 1
        self.count["crashes that lost records"] += kept_offset < host.log.end_offset
        host.crash(kept_offset)
        self.plan_number[host.node_id] += 1
        self.at(self.random.randrange(20, 1500), lambda: self.restart(host))

    def restart(self, host: Host) -> None:
        if not host.is_up:
            host.restart(self.local_ms(host))
            self.fetch_until[host.node_id] = self.checked_watermark[host.node_id] = 0
            self.act(host, host.raft.tick)

    def lose_disk(self, host: Host) -> None:
        """One at a time, and not while another has nothing: two empty disks of three look like a new cluster."""
        others = [other for other in self.hosts.values() if other is not host]
        if any(other.saved.is_new or not other.log.synced_offset for other in others):
            return
        self.crash(host)
        voters = host.log.voters.voters.ids
        host.log, host.saved = FakeLog(voters), ElectionState(is_new=True)
        self.count["lost disks"] += 1

    # --- network

    def send_all(self, host: Host) -> None:
        outbox, host.outbox = host.outbox, []
        for to, message in outbox:
            self.send(host.node_id, to, message, tuple(host.records_for(message, DATA_AT_A_FETCH_MAX)))

    def send(self, sender: int, to: int, message: Message, cargo: tuple[Entry, ...]) -> None:
        copies = 1
        if not self.is_calm:
            if (sender, to) in self.cut_links or self.random.random() < 0.05:
                return
            copies += self.random.random() < 0.05
        for _ in range(copies):
            is_slow = not self.is_calm and self.random.random() < 0.15
            delay_ms = self.random.randrange(1, 1500 if is_slow else 30)
            self.at(delay_ms, lambda: self.deliver(to, message, cargo))

    def deliver(self, to: int, message: Message, cargo: tuple[Entry, ...]) -> None:
        host = self.hosts.get(to)
        if host is None or not host.is_up:
            return
        if isinstance(message, RaftFetchAnswer | FetchSnapshotAnswer):
            self.fetch_until[to] = self.now_ms + (0 if cargo else FETCH_PAUSE_MS)
            self.at(FETCH_PAUSE_MS, lambda: self.fetch(host) if host.is_up else None)
        raft = host.raft
        self.act(host, lambda now_ms: raft.step(message, now_ms), cargo)

    # --- what people and fate do

    def write(self, host: Host) -> None:
        """A client asks a leader to append something."""
        if host.is_up and host.raft.is_leader:
            self.value_count += 1
            host.log.append([Entry(host.raft.epoch, self.value_count)])
            self.at(self.random.randrange(1, SYNC_MS_MAX), lambda: self.sync(host))

    def change_voters(self, host: Host) -> None:
        node_id = self.random.choice([*self.hosts])
        change = host.raft.remove_voter if node_id in host.raft.voters else host.raft.add_voter
        # A voter that is still new might be all that is left, and it must not vote.
        is_ready = not any(self.hosts[voter].saved.is_new for voter in host.raft.voters.ids)
        if host.is_up and host.raft.is_leader and is_ready:
            try:
                self.act(host, lambda now_ms: change(node_id, now_ms))
                self.count["voter changes"] += 1
            except Refused:
                self.count["refused voter changes"] += 1

    def take_snapshot(self, host: Host) -> None:
        end_offset = min(host.applied_watermark, host.log.synced_offset)
        if host.is_up and end_offset > host.log.start_offset:
            host.log.take_snapshot(end_offset)
            assert host.log.snapshot is not None
            self.snapshots[host.log.snapshot] = host.log.records[:end_offset]
            self.count["snapshots"] += 1

    def cut_some_links(self) -> None:
        ids = [*self.hosts]
        side = self.random.sample(ids, self.random.randrange(1, len(ids)))
        is_one_way = self.random.random() < 0.3
        links = [(a, b) for a in ids for b in ids if (a in side) != (b in side) and (a in side or not is_one_way)]
        self.cut_links = dict.fromkeys(links, True)
        self.at(self.random.randrange(100, 2000), self.cut_links.clear)

    def misfortune(self, with_changes: bool) -> None:
        hosts = [*self.hosts.values()]
        host = self.random.choice(hosts)
        match self.random.choices([*MISFORTUNES], [*MISFORTUNES.values()])[0]:
            case "write":
                for each in hosts:
                    self.write(each)
            case "crash" if host.is_up:
                self.crash(host)
            case "crash of a leader":
                for leader in [each for each in hosts if each.is_up and each.raft.is_leader]:
                    self.crash(leader)
            case "cut":
                self.cut_some_links()
            case "clock jump":
                # Several lose patience at once, and stand against each other and against a leader that is well.
                for each in self.random.sample(hosts, self.random.randrange(1, len(hosts))):
                    self.clock_start[each.node_id] += self.random.randrange(4000)
                    self.act(each, each.raft.tick)
            case "snapshot" if with_changes:
                for each in self.random.sample(hosts, 3):
                    self.take_snapshot(each)
            case "change" if with_changes:
                for each in hosts:
                    self.change_voters(each)
            case "resign":
                self.act(host, host.raft.resign)
            case "leader gone":  # or so it seems
                self.act(host, host.raft.leader_gone)
            case "disk lost" if not with_changes and host.is_up:
                self.lose_disk(host)
        if not self.is_calm:
            self.at(self.random.randrange(5, 100), lambda: self.misfortune(with_changes))

    # --- a whole history

    def live(self, with_changes: bool) -> None:
        for host in self.hosts.values():
            self.plan_tick(host)
        self.at(1, lambda: self.misfortune(with_changes))
        self.run_until(self.random.randrange(FAULTY_MS // 4, FAULTY_MS))
        self.is_calm = True
        self.cut_links = {}
        for host in self.hosts.values():
            self.restart(host)
        self.calm_down()

    def calm_down(self) -> None:
        """After the faults: somebody leads within bounded time, and what it is given becomes safe for all voters."""
        wanted: list[int] = []

        def is_settled() -> bool:
            leaders = [host for host in self.hosts.values() if host.is_up and host.raft.is_leader]
            if len(leaders) != 1:
                return False
            leader = leaders[0]
            if not wanted or not any(entry.value == wanted[-1] for entry in leader.log.records):
                self.write(leader)
                wanted.append(self.value_count)
                return False
            end = leader.log.end_offset
            return all(self.hosts[voter].applied_watermark >= end for voter in leader.raft.voters.ids)

        self.run_until(self.now_ms + CALM_MS_MAX, is_settled)
        assert is_settled(), "\n".join(
            f"{host.node_id}: {host.raft.role} {host.saved} {host.log.voters} {host.log.epochs()}"
            f" {host.applied_watermark}"
            for host in self.hosts.values()
        )
        self.check_log_matching()

    # --- what must always hold

    def check(self, host: Host) -> None:
        """After each step of a machine; the others have not changed."""
        self.check_watermark(host)
        if host.raft.is_leader:
            self.check_leader(host)

    def check_leader(self, host: Host) -> None:
        leader = self.leaders.setdefault(host.raft.epoch, host.node_id)
        assert leader == host.node_id, f"epoch {host.raft.epoch} has two leaders: {leader} and {host.node_id}"
        checked = (host.raft.epoch, len(self.safe))
        if checked[0] == max(self.leaders) and self.checked_leader[host.node_id] != checked:
            self.checked_leader[host.node_id] = checked
            # Leader completeness: whatever is safe is in its log. (A leader that was deposed may not know of it yet.)
            assert host.log.records[: len(self.safe)] == self.safe, f"leader {host.node_id} lacks safe records"

    def check_watermark(self, host: Host) -> None:
        """State machine safety: whatever says that something is safe says the same as everyone before."""
        checked, watermark = self.checked_watermark[host.node_id], host.applied_watermark
        if watermark <= checked:
            return
        assert watermark <= host.log.end_offset, "safe beyond the end of the log"
        claimed = host.log.records[checked:watermark]
        known = self.safe[checked:watermark]
        assert claimed[: len(known)] == known, f"node {host.node_id} has other records below {watermark}"
        self.checked_watermark[host.node_id] = watermark
        if watermark > len(self.safe):
            self.safe += claimed[len(known) :]
            self.check_is_on_disk(host, watermark)

    def check_is_on_disk(self, host: Host, watermark: int) -> None:
        """A crash of everybody would not lose what was just called safe: a majority has it synced."""
        if self.count["lost disks"]:
            return  # its owner had said that it had it
        voters = host.raft.voters
        holders = [
            voter
            for voter in voters.ids
            if self.hosts[voter].log.synced_offset >= watermark
            and self.hosts[voter].log.records[:watermark] == self.safe[:watermark]
        ]
        assert len(holders) >= voters.majority, f"{watermark} is called safe, but only {holders} have it on disk"

    def check_log_matching(self) -> None:
        """Raft, 5.3: logs with the same epoch at the same offset are the same up to there."""
        logs = [host.log.records for host in self.hosts.values()]
        for one in logs:
            for other in logs:
                shared = [i for i in range(min(len(one), len(other))) if one[i].epoch == other[i].epoch]
                if shared:
                    assert one[: shared[-1] + 1] == other[: shared[-1] + 1], "logs do not match"
