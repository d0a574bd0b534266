"""Adds to a kazoo Counter so many times, and prints the value after each, one a line.

    counter_peer.py CONNECT PATH text|curator AMOUNT TIMES

`curator` is `support_curator=True`: four bytes, big-endian.
"""

import os
import sys

from kazoo.client import KazooClient


def main(connect, path, layout, amount, times):
    client = KazooClient(hosts=connect, timeout=30)
    client.start(timeout=20)
    counter = client.Counter(path, support_curator=layout == "curator")
    for _ in range(int(times)):
        counter += int(amount)
        print(counter.post_value, flush=True)
    client.stop()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
