"""Takes jobs, one line of JSON each, from standard input, and answers each with one line on standard output."""

from __future__ import annotations

import faulthandler
import json
import sys
from collections.abc import Callable

from tests.bench.client import crowd, handshakes, kafka_python, librdkafka, paced, perf_tools, raw
from tests.bench.client_link import ANSWER_TIMEOUT_S

Job = Callable[..., dict[str, float]]
HANGS_AFTER_S = ANSWER_TIMEOUT_S - 5


def warm_up() -> dict[str, float]:
    """Answered once everything is imported."""
    return {}


JOBS: dict[str, Job] = {
    "warm_up": warm_up,
    "create_topics": librdkafka.create_topics,
    "set_trace": librdkafka.set_trace,
    "produce": librdkafka.produce,
    "produce_one_to_each": librdkafka.produce_one_to_each,
    "consume": librdkafka.consume,
    "gap_of_librdkafka": librdkafka.gap_after_kill,
    "gap_of_kafka_python": kafka_python.gap_after_kill,
    "seed_run": kafka_python.seed_run,
    "send_paced": paced.send_paced,
    "receive_paced": paced.receive_paced,
    "produce_by_tool": perf_tools.produce_by_tool,
    "consume_by_tool": perf_tools.consume_by_tool,
    "end_to_end_by_tool": perf_tools.end_to_end_by_tool,
    "first_acknowledged": raw.first_acknowledged,
    "requests": raw.requests,
    "one_at_a_time": raw.one_at_a_time,
    "watermark_delay": raw.watermark_delay,
    "among_others": crowd.among_others,
    "handshakes": handshakes.handshakes,
}


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        faulthandler.dump_traceback_later(HANGS_AFTER_S)  # so that a job which nothing waits for any longer says where
        try:
            answer: dict[str, object] = {"figures": JOBS[asked["job"]](**asked["arguments"])}
        except Exception as problem:  # whatever it was, the bench is told, and decides
            answer = {"error": f"{asked['job']}: {type(problem).__name__}: {problem}"}
        faulthandler.cancel_dump_traceback_later()
        print(json.dumps(answer), flush=True)


main()
