"""Over which time the rates of clients' quotas are measured. The quotas themselves are in the metadata log."""

from __future__ import annotations

from dataclasses import dataclass

from chronik.core.config.definitions import INT, Section, at_least, setting


@dataclass(frozen=True, slots=True)
class QuotasConfig(Section):
    """Over which time the rates of clients' quotas are measured."""

    quota_window_num: int = setting(INT, 11, "Windows over which a client's rate is measured.", at_least(1))
    quota_window_size_seconds: int = setting(INT, 1, "How long each of those windows is.", at_least(1))
    controller_quota_window_num: int = setting(
        INT, 11, "Windows over which a client's changes of topics are measured.", at_least(1)
    )
    controller_quota_window_size_seconds: int = setting(INT, 1, "How long each of those windows is.", at_least(1))
