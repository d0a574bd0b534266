"""Puts items into a kazoo Queue, or takes some out, and prints one line of JSON as QueuePeer.java does.

    queue_peer.py CONNECT PATH offer|take COUNT

The items are the numbers from 0 on, as text.
"""

import json
import os
import sys
import time

from kazoo.client import KazooClient


def main(connect, path, what, count):
    client = KazooClient(hosts=connect, timeout=30)
    client.start(timeout=20)
    queue = client.Queue(path)
    items, latencies = [], []
    began = time.monotonic_ns()
    for at in range(int(count)):
        before = time.monotonic_ns()
        if what == "offer":
            queue.put(str(at).encode())
        else:
            item = queue.get()
            if item is None:
                break
            items.append(item.decode())
        latencies.append(time.monotonic_ns() - before)
    seconds = (time.monotonic_ns() - began) / 1e9
    latencies.sort()

    def at_percent(percent):
        return latencies[(len(latencies) - 1) * percent // 100] / 1e3 if latencies else 0

    print(json.dumps({
        "seconds": seconds,
        "operations": len(latencies),
        "p50_micros": at_percent(50),
        "p99_micros": at_percent(99),
        "items": items,
    }), flush=True)
    client.stop()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
