"""Takes a lock as HBase 1.x does, when told to, and says when it held it.

    hbase_contender.py CONNECT PATH SESSION_TIMEOUT_MS

It makes the requests that HBase's ZKInterProcessReadLock and ZKInterProcessWriteLock make, with HBase's names and data,
over kazoo's connection: HBase itself is in no distribution's packages.

- A node is `read-` or `write-`, the name of the process, and the number. The name may end in a digit.
- Its data begin with 0xff, the length of an id as four bytes, the id and eight bytes of salt.
- A writer waits for the node right before it, whichever it is; a reader for the last `write-` before it. Either lists
  again once that one is gone, and reads the data of the first one, who holds the lock.
- The order is that of the last ten digits.

The commands and answers are those of contender.py, always with a kind: `acquire read|write WAIT_MS`.
"""

import os
import struct
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kazoo.protocol.states import EventType

PROCESS = "master:16000"


def say(line):
    print(line, flush=True)


def number(name):
    return int(name[-10:])


def with_id(data):
    identity = PROCESS.encode() + os.urandom(8)
    return b"\xff" + struct.pack(">i", len(identity)) + identity + data


def without_id(data):
    if data[:1] != b"\xff":
        return data
    (length,) = struct.unpack(">i", data[1:5])
    return data[5 + length :]


class Lock:
    def __init__(self, client, parent, prefix):
        self.client = client
        self.parent = parent
        self.prefix = prefix
        self.held = None

    def acquire(self, timeout):
        until = time.monotonic() + timeout
        path = self.client.create(
            self.parent + "/" + self.prefix + PROCESS,
            with_id(b"PBUF"),
            ephemeral=True,
            sequence=True,
            makepath=True,
        )
        while True:
            before = self.before(path)
            if not before:
                break
            if not self.gone(before[-1], before[0], until):
                self.client.delete(path)
                return False
        _, stat = self.client.get(path)
        self.held = (path, stat.version)
        return True

    def before(self, path):
        """Those that are waited for, in order."""
        names = self.client.get_children(self.parent)
        if self.prefix == "read-":
            names = [name for name in names if name.startswith("write-")]
        return sorted((name for name in names if number(name) < number(path)), key=number)

    def gone(self, name, holder, until):
        """Whether the node is gone in time."""
        try:
            data, _ = self.client.get(self.parent + "/" + holder)
            without_id(data)
        except NoNodeError:
            pass
        while True:
            fired = threading.Event()
            events = []

            def watch(event):
                events.append(event.type)
                fired.set()

            try:
                self.client.get(self.parent + "/" + name, watch=watch)
            except NoNodeError:
                return True
            if not fired.wait(max(0, until - time.monotonic())):
                return False
            if events[0] == EventType.DELETED:
                return True

    def release(self):
        path, version = self.held
        self.client.delete(path, version=version)
        self.held = None


def main(connect, path, session_timeout_ms):
    client = KazooClient(hosts=connect, timeout=int(session_timeout_ms) / 1000)
    client.start(timeout=20)
    locks = {kind: Lock(client, path, kind + "-") for kind in ("read", "write")}
    # Masked, as it is an unsigned number elsewhere.
    say("ready %x" % (client.client_id[0] & 0xFFFFFFFFFFFFFFFF))
    for command in sys.stdin:
        words = command.split()
        try:
            if words[0] == "acquire":
                held = locks[words[1]].acquire(int(words[2]) / 1000)
                say(("acquired " if held else "timeout ") + str(time.monotonic_ns()))
            elif words[0] == "release":
                before = time.monotonic_ns()
                locks[words[1]].release()
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
