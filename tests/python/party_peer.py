"""Joins a kazoo Party or ShallowParty when told to, and lists its members.

    party_peer.py CONNECT PATH KIND ID

The kind is party or shallow.

    command                       answer
                                  ready SESSION_ID               once connected, the id in hexadecimal
    join                          joined
    list                          found ID ...                   in order
    leave                         left
    quit                          bye                            the session is closed
                                  failed MESSAGE                 instead of any of these

When the standard input ends, so does the process.
"""

import sys

from kazoo.client import KazooClient


def say(line):
    print(line, flush=True)


def text(value):
    return value.decode("utf-8") if isinstance(value, bytes) else value


def main(connect, path, kind, identifier):
    client = KazooClient(hosts=connect, timeout=10)
    client.start(timeout=20)
    party = {"party": client.Party, "shallow": client.ShallowParty}[kind](path, identifier)
    # Masked, as it is an unsigned number elsewhere.
    say("ready %x" % (client.client_id[0] & 0xFFFFFFFFFFFFFFFF))
    for command in sys.stdin:
        try:
            word = command.strip()
            if word == "join":
                party.join()
                say("joined")
            elif word == "list":
                client.sync(path)
                say(" ".join(["found"] + sorted(text(member) for member in party)))
            elif word == "leave":
                party.leave()
                say("left")
            elif word == "quit":
                client.stop()
                say("bye")
                return
            else:
                say("failed unknown command " + word)
        except Exception as error:
            say("failed %r" % error)


main(*sys.argv[1:])
