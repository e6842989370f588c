"""What clients have taken of what they may take, and how long one that took more has to wait.

Client ids are what clients say they are, so anyone can have as many as it likes: the number of windows is bounded, and
one in which nothing falls any more is dropped. Those that find no room share one window for each quota: to come under
ever new names gives nothing more than that.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from chronik.core.config.sections.quotas import QuotasConfig
from chronik.core.quotas.entities import QuotaKey
from chronik.core.quotas.limits import Limit, QuotaLimits
from chronik.core.quotas.windows import RateWindows, TokenBucket

WINDOWS_MAX = 10_000
NAME_LENGTH_MAX = 256  # longer names that begin alike share a window
PERCENT_PER_MS = 100 / 1000  # a request that takes a millisecond takes a tenth of a percent of a second

_Key: TypeAlias = tuple[QuotaKey, str, str]


class Decided(NamedTuple):
    """How long a client has to wait, and whether what it asked for is to be kept from it till then."""

    wait_ms: int
    is_withheld: bool = False


FREE = Decided(0)


class ClientQuotas:
    """One for each node. `limits` are those of the metadata image, which change while it runs."""

    def __init__(self, limits: QuotaLimits, config: QuotasConfig, *, windows_max: int = WINDOWS_MAX) -> None:
        self.limits = limits
        self._config = config
        self._windows_max = windows_max
        self._rates: dict[_Key, RateWindows] = {}  # the one that was used longest ago in front
        self._buckets: dict[_Key, TokenBucket] = {}
        # Counted, for the metrics: by quota, how often clients had to wait, and for how long in all.
        self.throttled: dict[QuotaKey, int] = dict.fromkeys(QuotaKey, 0)
        self.throttled_ms: dict[QuotaKey, int] = dict.fromkeys(QuotaKey, 0)

    def __len__(self) -> int:
        """How many clients' windows there are."""
        return len(self._rates) + len(self._buckets)

    def record(self, key: QuotaKey, user: str, client_id: str, amount: float, now_ms: int) -> int:
        """A client has taken so much. Returns for how many ms it has to wait."""
        limit = self.limits.limit_of(key, user, client_id)
        if limit is None:
            return 0
        rate = self._rate(key, limit, now_ms)
        rate.record(amount, now_ms)
        return self._wait(key, rate, limit, now_ms)

    def record_time(self, user: str, client_id: str, spent_ms: float, now_ms: int) -> None:
        """A request of this client took so much of this node's time. What follows from it is asked with an answer."""
        limit = self.limits.limit_of(QuotaKey.REQUEST, user, client_id)
        if limit is not None:
            self._rate(QuotaKey.REQUEST, limit, now_ms).record(max(0.0, spent_ms) * PERCENT_PER_MS, now_ms)

    def wait_ms(self, key: QuotaKey, user: str, client_id: str, now_ms: int) -> int:
        """As `record`, where nothing more was taken."""
        limit = self.limits.limit_of(key, user, client_id)
        return 0 if limit is None else self._wait(key, self._rate(key, limit, now_ms), limit, now_ms)

    def _wait(self, key: QuotaKey, rate: RateWindows, limit: Limit, now_ms: int) -> int:
        wait_ms = rate.wait_ms(limit.value, now_ms)
        if key is QuotaKey.REQUEST:  # as in Kafka: one long request does not shut a client out for long
            wait_ms = min(wait_ms, self._config.quota_window_size_seconds * 1000)
        return self._counted(key, wait_ms)

    def give(self, user: str, client_id: str, size_bytes: int, now_ms: int) -> Decided:
        """A consumer is to get so much. Over its quota it gets nothing, and asks again when it has waited, as in Kafka.

        One that got nothing lately gets it whatever it is: a batch may be larger than the quota ever allows, and would
        never come. (Kafka's consumer waits for ever then.)
        """
        limit = self.limits.limit_of(QuotaKey.FETCH, user, client_id)
        if limit is None:
            return FREE
        rate = self._rate(QuotaKey.FETCH, limit, now_ms)
        is_first = rate.is_empty(now_ms)
        rate.record(size_bytes, now_ms)
        wait_ms = self._counted(QuotaKey.FETCH, rate.wait_ms(limit.value, now_ms))
        if not wait_ms or is_first:
            return Decided(wait_ms)
        rate.take_back(size_bytes)
        return Decided(wait_ms, is_withheld=True)

    def fetch_bytes_max(self, user: str, client_id: str) -> int | None:
        """More than this would be over the quota in any case; None: there is none."""
        limit = self.limits.limit_of(QuotaKey.FETCH, user, client_id)
        if limit is None:
            return None
        config = self._config
        return int(limit.value * (config.quota_window_num - 1) * config.quota_window_size_seconds)

    def mutation(self, user: str, client_id: str, *, is_strict: bool) -> MutationQuota:
        """Of one request that changes topics."""
        limit = self.limits.limit_of(QuotaKey.CONTROLLER_MUTATION, user, client_id)
        return MutationQuota(self, limit, is_strict=is_strict)

    def _rate(self, key: QuotaKey, limit: Limit, now_ms: int) -> RateWindows:
        config, rates, name = self._config, self._rates, _name_of(key, limit)
        found = rates.pop(name, None)
        if found is None:
            self._drop_idle(rates, now_ms)
            if len(rates) >= self._windows_max:
                name = (key, "", "")  # no client's own: a client has a user or an id
                found = rates.pop(name, None)
            if found is None:
                found = RateWindows(config.quota_window_num, config.quota_window_size_seconds * 1000)
        rates[name] = found
        return found

    def bucket(self, limit: Limit, now_ms: int) -> TokenBucket:
        config, buckets, name = self._config, self._buckets, _name_of(QuotaKey.CONTROLLER_MUTATION, limit)
        found = buckets.pop(name, None)
        if found is None:
            self._drop_idle(buckets, now_ms)
            if len(buckets) >= self._windows_max:
                name = (QuotaKey.CONTROLLER_MUTATION, "", "")
                found = buckets.pop(name, None)
            if found is None:
                found = TokenBucket(
                    config.controller_quota_window_num, config.controller_quota_window_size_seconds * 1000
                )
        buckets[name] = found
        return found

    @staticmethod
    def _drop_idle(windows: dict[_Key, RateWindows] | dict[_Key, TokenBucket], now_ms: int) -> None:
        """Those in which nothing is left; they are in front. Two for each that comes, so that all go in time."""
        for _ in range(2):
            name = next(iter(windows), None)
            if name is None or now_ms - windows[name].used_at_ms < windows[name].kept_ms:
                return
            del windows[name]

    def _counted(self, key: QuotaKey, wait_ms: int) -> int:
        if wait_ms:
            self.count_throttled(key, wait_ms)
        return wait_ms

    def count_throttled(self, key: QuotaKey, wait_ms: int) -> None:
        self.throttled[key] += 1
        self.throttled_ms[key] += wait_ms


class MutationQuota:
    """What one request takes of the quota for changes of topics (KIP-599), by partitions made or deleted.

    Strict: once it is used up, nothing more of the request is done. Else all is done, and its client waits.
    """

    def __init__(self, quotas: ClientQuotas, limit: Limit | None, *, is_strict: bool) -> None:
        self._quotas = quotas
        self._limit = limit
        self._is_strict = is_strict
        self.wait_ms = 0

    def takes(self, partitions: int, now_ms: int) -> bool:
        """Whether so many may be changed; if so they are counted."""
        limit = self._limit
        if limit is None:
            return True
        bucket = self._quotas.bucket(limit, now_ms)
        if self._is_strict:
            self._wait(bucket.wait_ms(limit.value, now_ms))
            if self.wait_ms:
                return False
            bucket.take(partitions, limit.value, now_ms)
        else:
            bucket.take(partitions, limit.value, now_ms)
            self._wait(bucket.wait_ms(limit.value, now_ms))
        return True

    def _wait(self, wait_ms: int) -> None:
        if wait_ms and not self.wait_ms:
            self._quotas.count_throttled(QuotaKey.CONTROLLER_MUTATION, wait_ms)
        self.wait_ms = max(self.wait_ms, wait_ms)


def _name_of(key: QuotaKey, limit: Limit) -> _Key:
    return key, limit.user[:NAME_LENGTH_MAX], limit.client_id[:NAME_LENGTH_MAX]
