"""Uses a kazoo LockingQueue on command. Each command and each reply is a line.

    locking_queue_peer.py CONNECT SESSION_SECONDS PATH

put ITEM [PRIORITY]   puts an item: "put"
get SECONDS           locks an item: "got ITEM", or "got" if there was none in this time
consume               finishes it: "consumed True" or "consumed False"
release               returns it: "released True" or "released False"
"""

import os
import sys

from kazoo.client import KazooClient


def say(line):
    print(line, flush=True)


def answer(queue, words):
    if words[0] == "put":
        queue.put(words[1].encode(), *[int(word) for word in words[2:]])
        return "put"
    if words[0] == "get":
        item = queue.get(float(words[1]))
        return "got" if item is None else "got " + item.decode()
    if words[0] == "consume":
        return "consumed %s" % queue.consume()
    if words[0] == "release":
        return "released %s" % queue.release()
    return "failed unknown command %s" % words


def main(connect, seconds, path):
    client = KazooClient(hosts=connect, timeout=float(seconds))
    client.start(timeout=20)
    queue = client.LockingQueue(path)
    say("ready")
    for line in sys.stdin:
        try:
            say(answer(queue, line.split()))
        except Exception as error:
            say("failed %r" % error)
    client.stop()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
