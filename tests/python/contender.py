"""Takes a kazoo lock when told to, and says when it held it.

    contender.py CONNECT PATH SESSION_TIMEOUT_MS

    command                       answer
                                  ready SESSION_ID               once connected, the id in hexadecimal
    acquire [KIND] WAIT_MS        acquired NANOS | timeout NANOS
    release [KIND]                released NANOS
    quit                          bye                            the session is closed
                                  failed MESSAGE                 instead of any of these

Without a kind it is a Lock, otherwise a ReadLock or a WriteLock, or a Lock that is set up for Curator's names:

    curator   _NODE_NAME and _EXCLUDE_NAMES both name "-lock-"
    named     _NODE_NAME alone
    extra     extra_lock_patterns names "-lock-"

The words mean what they mean to Contender.java and
RwContender.java. When the standard input ends, so does the process.
"""

import os
import sys
import time

from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout
from kazoo.recipe.lock import Lock


class NamedLock(Lock):
    _NODE_NAME = "-lock-"


class CuratorLock(NamedLock):
    _EXCLUDE_NAMES = ["-lock-"]


def say(line):
    print(line, flush=True)


def main(connect, path, session_timeout_ms):
    client = KazooClient(hosts=connect, timeout=int(session_timeout_ms) / 1000)
    client.start(timeout=20)
    locks = {
        "": client.Lock(path),
        "read": client.ReadLock(path),
        "write": client.WriteLock(path),
        "curator": CuratorLock(client, path),
        "named": NamedLock(client, path),
        "extra": Lock(client, path, extra_lock_patterns=["-lock-"]),
    }
    # Masked, as it is an unsigned number elsewhere.
    say("ready %x" % (client.client_id[0] & 0xFFFFFFFFFFFFFFFF))
    for command in sys.stdin:
        words = command.split()
        try:
            if words[0] == "acquire":
                kind = words[1] if len(words) > 2 else ""
                try:
                    held = locks[kind].acquire(timeout=int(words[-1]) / 1000)
                except LockTimeout:
                    held = False
                say(("acquired " if held else "timeout ") + str(time.monotonic_ns()))
            elif words[0] == "release":
                before = time.monotonic_ns()
                locks[words[1] if len(words) > 1 else ""].release()
                say("released %d" % before)
            elif words[0] == "quit":
                client.stop()
                say("bye")
                os._exit(0)
            else:
                say("failed unknown command " + words[0])
        except Exception as error:  # whatever it is, the driver is to hear of it
            say("failed %s: %s" % (type(error).__name__, str(error).replace("\n", " ")))
    os._exit(2)


if __name__ == "__main__":
    main(*sys.argv[1:])
