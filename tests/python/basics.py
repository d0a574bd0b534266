"""Does with kazoo what every client does, checks each result, and prints "done".

    basics.py CONNECT
"""

import os
import sys
import threading
import traceback

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError


def expect(what, found, wanted):
    if found != wanted:
        raise AssertionError("%s: %r instead of %r" % (what, found, wanted))


def raises(error, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except error:
        return
    raise AssertionError("%s was not raised" % error.__name__)


def main(connect):
    client = KazooClient(hosts=connect, timeout=10)
    client.start(timeout=20)
    other = KazooClient(hosts=connect, timeout=10)
    other.start(timeout=20)

    expect("create", client.create("/basics", b"one"), "/basics")
    raises(NodeExistsError, client.create, "/basics")
    data, stat = client.get("/basics")
    expect("get", (data, stat.version), (b"one", 0))
    changed, listed = threading.Event(), threading.Event()
    client.get("/basics", watch=lambda event: changed.set())
    client.get_children("/basics", watch=lambda event: listed.set())
    expect("set", other.set("/basics", b"two").version, 1)
    raises(BadVersionError, other.set, "/basics", b"three", version=0)
    if not changed.wait(20):
        raise AssertionError("the data watch did not fire")
    name = other.create("/basics/child-", b"", ephemeral=True, sequence=True)
    expect("sequence", name, "/basics/child-0000000000")
    if not listed.wait(20):
        raise AssertionError("the child watch did not fire")
    expect("children", client.get_children("/basics"), ["child-0000000000"])
    if client.exists("/missing") is not None:
        raise AssertionError("/missing exists")
    client.sync("/basics")
    expect("owner", client.exists(name).ephemeralOwner, other.client_id[0])

    transaction = client.transaction()
    transaction.check("/basics", version=1)
    transaction.create("/basics/a", b"a")
    transaction.set_data("/basics", b"four")
    results = transaction.commit()
    expect("transaction", (results[:2], results[2].version), ([True, "/basics/a"], 2))
    transaction = client.transaction()
    transaction.delete("/basics/a")
    transaction.delete("/missing")
    results = transaction.commit()
    expect("refused part", type(results[1]), NoNodeError)
    if client.exists("/basics/a") is None:
        raise AssertionError("a refused transaction was applied in part")

    gone = threading.Event()
    client.exists(name, watch=lambda event: gone.set())
    other.stop()
    if not gone.wait(20):
        raise AssertionError("an ephemeral node outlived its session")
    raises(NoNodeError, client.get, name)

    third = KazooClient(hosts=connect, timeout=10)
    third.start(timeout=20)
    first, second = client.Lock("/lock", "first"), third.Lock("/lock", "second")
    with first:
        expect("contended lock", second.acquire(blocking=False), False)
        expect("contenders", first.contenders(), ["first"])
    expect("free lock", second.acquire(timeout=20), True)
    second.release()
    third.stop()

    client.delete("/basics", recursive=True)
    raises(NoNodeError, client.get, "/basics")
    client.stop()
    print("done", flush=True)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Exception:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
