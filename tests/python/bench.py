"""Measures kazoo's Lock and prints one line of JSON, as Bench.java does.

    bench.py CONNECT PATH WARM_UP_MS MEASURE_MS SESSIONS

One session acquires and releases, and a latency is that of both together. Several contend with a thread each and hold
the lock for no time, and a latency is that of a hand-over.
"""

import json
import os
import sys
import threading
import time

from kazoo.client import KazooClient

LEAST = 20


class Bench:
    def __init__(self, connect, path, warm_up, measure, sessions):
        self.path, self.sessions = path, sessions
        self.clients = [KazooClient(hosts=connect, timeout=30) for _ in range(sessions)]
        for client in self.clients:
            client.start(timeout=20)
        self.since = time.monotonic_ns() + warm_up * 1000000
        self.until = self.since + measure * 1000000
        # Written and read under the lock that is measured.
        self.released_at = self.grants = self.ended = 0
        self.latencies = []
        self.failed = None

    def work(self, client):
        lock = client.Lock(self.path)
        try:
            while self.failed is None:
                begun = time.monotonic_ns()
                if not lock.acquire(timeout=30):
                    raise RuntimeError("the lock was not acquired within 30 s")
                acquired, handed_over = time.monotonic_ns(), self.released_at
                self.grants += 1
                over = acquired >= self.until and len(self.latencies) >= LEAST
                if not over and self.sessions > 1 and handed_over and acquired >= self.since:
                    self.note(acquired - handed_over, acquired)
                self.released_at = time.monotonic_ns()
                lock.release()
                if over:
                    return
                released = time.monotonic_ns()
                if self.sessions == 1 and released >= self.since:
                    self.note(released - begun, released)
        except Exception as error:  # whatever it is, the driver is to hear of it
            self.failed = error

    def note(self, latency, at):
        self.latencies.append(latency)
        self.ended = at

    def run(self):
        threads = [threading.Thread(target=self.work, args=(client,)) for client in self.clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.failed is not None:
            raise self.failed
        for client in self.clients:
            client.stop()
        self.latencies.sort()
        count = len(self.latencies)
        seconds = (max(self.until, self.ended) - self.since) / 1e9
        percentile = lambda percent: self.latencies[max(0, -(-count * percent // 100) - 1)] / 1e3
        print(json.dumps({
            "workload": "uncontended" if self.sessions == 1 else "sessions",
            "sessions": self.sessions,
            "threads": 1,
            "seconds": seconds,
            "operations": count,
            "per_second": count / seconds,
            "p50_micros": percentile(50),
            "p99_micros": percentile(99),
            "grants": self.grants,
        }), flush=True)
        os._exit(0)


if __name__ == "__main__":
    connect, path, *numbers = sys.argv[1:]
    Bench(connect, path, *map(int, numbers)).run()
