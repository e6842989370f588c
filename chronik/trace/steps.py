"""The steps of requests as they are told to the trace: each method makes one event, of what the step knows anyway."""

from __future__ import annotations

from chronik.trace.recorder import Recorder


class Steps:
    """There while something is traced. Who has a step to tell asks `wants` first: most topics are not traced."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._node_id = recorder.node_id
        self._clock = recorder.clock
        self.wants = recorder.wants
