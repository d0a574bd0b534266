"""Takes a kazoo lock again and again, and asks a file whether it may have it.

    melee.py NAME CONNECT PATH SESSION_TIMEOUT_MS DIRECTORY ROLE

ROLE is mutex, read, write, or curator, which is a mutex whose nodes are named so that Curator waits for them. The files
are those of Melee.java. When the standard input ends, so does the process.
"""

import fcntl
import os
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.recipe.lock import Lock, ReadLock, WriteLock


class CuratorLock(Lock):
    _NODE_NAME = "-lock-"
    _EXCLUDE_NAMES = ["-lock-"]


def read():
    while sys.stdin.read(1):
        pass
    os._exit(2)


def main(name, connect, path, session_timeout_ms, directory, role):
    threading.Thread(target=read, daemon=True).start()
    client = KazooClient(hosts=connect, timeout=int(session_timeout_ms) / 1000)
    client.start(timeout=20)
    kind = {"mutex": Lock, "read": ReadLock, "write": WriteLock, "curator": CuratorLock}[role]
    lock = kind(client, path)
    mode = fcntl.LOCK_SH if role == "read" else fcntl.LOCK_EX
    file = open(os.path.join(directory, "lock"), "a+")
    log = os.open(os.path.join(directory, "log"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    while True:
        try:
            with lock:
                try:
                    fcntl.lockf(file, mode | fcntl.LOCK_NB)
                except OSError:
                    os.write(log, ("overlap %s\n" % name).encode())
                else:
                    os.write(log, ("granted %s\n" % name).encode())
                    time.sleep(0.001)
                    fcntl.lockf(file, fcntl.LOCK_UN)
        except Exception as error:  # it goes on, whatever it is
            print("%s: %s: %s" % (name, type(error).__name__, error), file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
