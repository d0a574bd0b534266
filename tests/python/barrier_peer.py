"""Uses a kazoo Barrier and a kazoo DoubleBarrier on command, as BarrierPeer.java does.

    barrier_peer.py CONNECT BARRIER DOUBLE_BARRIER MEMBERS

An answer may also be "failed MESSAGE".
"""

import os
import sys

from kazoo.client import KazooClient


def main(connect, barrier, double_barrier, members):
    client = KazooClient(hosts=connect, timeout=10)
    client.start(timeout=20)
    single = client.Barrier(barrier)
    double = client.DoubleBarrier(double_barrier, int(members))
    commands = {
        "set": (single.create, "set"),
        "remove": (single.remove, "removed"),
        "wait": (single.wait, "passed"),
        "enter": (double.enter, "entered"),
        "leave": (double.leave, "left"),
    }
    print("ready %x" % client.client_id[0], flush=True)
    for line in sys.stdin:
        command = line.strip()
        if command == "quit":
            client.stop()
            print("bye", flush=True)
            break
        action, answer = commands[command]
        # Its server may lag behind those of the others.
        client.sync("/")
        try:
            action()
        except Exception as error:
            answer = "failed %r" % error
        # `enter` swallows errors; the member shows them.
        if command == "enter" and not double.participating:
            answer = "failed to enter"
        print(answer, flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
