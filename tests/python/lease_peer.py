"""Takes kazoo's leases on command. Each command and each reply is a line.

    lease_peer.py CONNECT

lease PATH HOLDER SECONDS        takes a NonBlockingLease: "taken True" or "taken False"
multi PATH COUNT HOLDER SECONDS  takes a MultiNonBlockingLease
"""

import datetime
import os
import sys

from kazoo.client import KazooClient


def say(line):
    print(line, flush=True)


def answer(client, words):
    seconds = datetime.timedelta(seconds=float(words[-1]))
    if words[0] == "lease":
        return "taken %s" % bool(client.NonBlockingLease(words[1], seconds, identifier=words[2]))
    if words[0] == "multi":
        lease = client.MultiNonBlockingLease(int(words[2]), words[1], seconds, identifier=words[3])
        return "taken %s" % bool(lease)
    return "failed unknown command %s" % words


def main(connect):
    client = KazooClient(hosts=connect, timeout=30)
    client.start(timeout=20)
    say("ready")
    for line in sys.stdin:
        try:
            say(answer(client, line.split()))
        except Exception as error:
            say("failed %r" % error)
    client.stop()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
