"""Chronik: a Kafka-compatible event log that can prove where every message is."""

from __future__ import annotations

__version__ = "0.1.0"
