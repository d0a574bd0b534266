"""Shares items with kazoo's SetPartitioner, and says which ones it owns.

    partitioner_peer.py CONNECT PATH ID ITEM ...

    command                       answer
                                  ready SESSION_ID               once connected, the id in hexadecimal
    start                         started
    items                         owns ITEM ...                  in order; none while it is not acquired
    finish                        finished                       released, and no member
    quit                          bye                            the session is closed
                                  failed MESSAGE                 instead of any of these

It releases its items as soon as it is to. When the standard input ends, so does the process.
"""

import sys
import threading

from kazoo.client import KazooClient


def say(line):
    print(line, flush=True)


def follow(partitioner):
    while not partitioner.failed:
        if partitioner.release:
            partitioner.release_set()
        else:
            partitioner.state_change_event.wait(0.05)
            partitioner.state_change_event.clear()


def main(connect, path, identifier, *items):
    client = KazooClient(hosts=connect, timeout=10)
    client.start(timeout=20)
    # Masked, as it is an unsigned number elsewhere.
    say("ready %x" % (client.client_id[0] & 0xFFFFFFFFFFFFFFFF))
    partitioner = None
    follower = None
    for command in sys.stdin:
        try:
            word = command.strip()
            if word == "start":
                partitioner = client.SetPartitioner(
                    path, set=items, identifier=identifier, time_boundary=1, max_reaction_time=1
                )
                follower = threading.Thread(target=follow, args=(partitioner,), daemon=True)
                follower.start()
                say("started")
            elif word == "items":
                owned = sorted(partitioner) if partitioner.acquired else []
                say(" ".join(["owns"] + owned))
            elif word == "finish":
                partitioner.finish()
                follower.join(20)
                say("finished")
            elif word == "quit":
                client.stop()
                say("bye")
                return
            else:
                say("failed unknown command " + word)
        except Exception as error:
            say("failed %r" % error)


main(*sys.argv[1:])
