//! Tests links between plain listeners.

use std::io::{self, Read, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use super::*;

const WITHIN: Duration = Duration::from_secs(20);
const AGES: Duration = Duration::from_secs(3600);
const A_WHILE: Duration = Duration::from_millis(150);

/// A link from server 1 to server 2, where server 2 is a listener of the test.
struct Pairing {
    links: QuorumLinks,
    relay: SocketAddr,
    server: TcpListener,
}

impl Pairing {
    fn new(callback: Option<SocketAddr>) -> Self {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let listener = listen(0).unwrap();
        let relay = listener.local_addr().unwrap();
        let target = server.local_addr().unwrap();
        let pair = (1, 2);
        let parts = Relay {
            pair,
            target,
            callback,
        };
        let links = QuorumLinks::start_on(vec![(listener, parts)]).unwrap();
        Self {
            links,
            relay,
            server,
        }
    }

    /// Waits until the links have this number of connections.
    fn until_connected(&self, wanted: usize) {
        let waited = crate::wait::until_blocking(WITHIN, Duration::from_millis(5), || {
            let live = self.links.all().connections();
            if live == wanted { Ok(()) } else { Err(live) }
        });
        assert_eq!(waited, Ok(()), "waited for {wanted} connections");
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.relay).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(WITHIN)).unwrap();
        stream
    }

    fn accept(&self) -> TcpStream {
        let (stream, _) = self.server.accept().unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(WITHIN)).unwrap();
        stream
    }

    fn connected(&self) -> (TcpStream, TcpStream) {
        let client = self.connect();
        (client, self.accept())
    }
}

fn expect(mut from: impl Read, text: &[u8]) {
    let mut got = vec![0; text.len()];
    from.read_exact(&mut got).unwrap();
    assert_eq!(got, text);
}

/// Returns whether nothing arrives for a while.
fn is_silent(stream: &TcpStream) -> bool {
    stream.set_read_timeout(Some(A_WHILE)).unwrap();
    let read = stream.peek(&mut [0]);
    stream.set_read_timeout(Some(WITHIN)).unwrap();
    read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

fn one_way(links: &QuorumLinks) -> DirectedLinks {
    links.one_way(1, 2).unwrap()
}

#[test]
fn bytes_and_the_end_pass_in_both_directions() {
    let pairing = Pairing::new(None);
    let (mut client, mut server) = pairing.connected();
    client.write_all(b"there").unwrap();
    expect(&server, b"there");
    server.write_all(b"back").unwrap();
    expect(&client, b"back");
    assert_eq!(pairing.links.all().connections(), 1);
    drop(server);
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
}

#[test]
fn a_delay_affects_only_its_direction() {
    let pairing = Pairing::new(None);
    let (mut client, mut server) = pairing.connected();
    let delay = Duration::from_millis(300);
    one_way(&pairing.links).delay(delay);
    let sent = Instant::now();
    client.write_all(b"late").unwrap();
    expect(&server, b"late");
    assert!(sent.elapsed() >= delay, "{:?}", sent.elapsed());
    // Longer than the test waits.
    one_way(&pairing.links).delay(AGES);
    server.write_all(b"soon").unwrap();
    expect(&client, b"soon");
    pairing.links.heal();
    client.write_all(b"again").unwrap();
    expect(&server, b"again");
}

#[test]
fn a_rate_limits_throughput() {
    let pairing = Pairing::new(None);
    let (mut client, server) = pairing.connected();
    let bytes = vec![7; 30_000];
    one_way(&pairing.links).rate(100_000);
    let sent = Instant::now();
    client.write_all(&bytes).unwrap();
    expect(&server, &bytes);
    let least = Duration::from_millis(300);
    assert!(sent.elapsed() >= least, "{:?}", sent.elapsed());
    one_way(&pairing.links).rate(1).heal();
    client.write_all(&bytes).unwrap();
    expect(&server, &bytes);
}

#[test]
fn a_blocked_direction_holds_bytes_and_end_until_unblocked() {
    let pairing = Pairing::new(None);
    let (mut client, mut server) = pairing.connected();
    one_way(&pairing.links).block();
    client.write_all(b"lost?").unwrap();
    assert!(is_silent(&server));
    server.write_all(b"still expected").unwrap();
    expect(&client, b"still expected");
    drop(client);
    assert!(is_silent(&server));
    one_way(&pairing.links).unblock();
    expect(&server, b"lost?");
    assert_eq!(server.read(&mut [0]).unwrap(), 0);
}

#[test]
fn a_block_in_either_direction_prevents_connections() {
    let pairing = Pairing::new(None);
    pairing.server.set_nonblocking(true).unwrap();
    for (from, to) in [(1, 2), (2, 1)] {
        let link = pairing.links.one_way(from, to).unwrap();
        link.block();
        let mut open = pairing.connect();
        open.write_all(b"hello").unwrap();
        // This one closes before the unblock, so the server never sees it.
        let mut closed = pairing.connect();
        closed.write_all(b"hello").unwrap();
        // The relay must have accepted both before one closes: one accepted later would find the direction open.
        pairing.until_connected(2);
        drop(closed);
        pairing.until_connected(1);
        assert!(pairing.server.accept().is_err());
        link.unblock();
        let accepted = crate::wait::until_blocking(WITHIN, Duration::from_millis(5), || {
            pairing.server.accept()
        });
        let server = accepted.unwrap().0;
        server.set_nonblocking(false).unwrap();
        expect(&server, b"hello");
        assert!(is_silent(&server));
        assert!(
            pairing.server.accept().is_err(),
            "the closed connection reached the server"
        );
        drop((open, server));
        pairing.until_connected(0);
    }
}

#[test]
fn a_cut_closes_open_connections_but_not_later_ones() {
    let pairing = Pairing::new(None);
    for close in [Close::Fin, Close::Rst] {
        let (mut client, mut server) = pairing.connected();
        // A byte has passed, so the connection is established.
        client.write_all(b"x").unwrap();
        expect(&server, b"x");
        pairing.links.one_way(2, 1).unwrap().cut(close);
        for end in [&mut client, &mut server] {
            let read = end.read(&mut [0]);
            match close {
                Close::Rst => assert_eq!(read.unwrap_err().kind(), io::ErrorKind::ConnectionReset),
                _ => assert_eq!(read.unwrap(), 0),
            }
        }
    }
    let (mut client, server) = pairing.connected();
    client.write_all(b"anew").unwrap();
    expect(&server, b"anew");
}

#[test]
fn a_connection_to_a_stopped_server_is_reset() {
    let pairing = Pairing::new(None);
    let Pairing {
        links,
        relay,
        server,
    } = pairing;
    drop(server);
    let mut client = TcpStream::connect(relay).unwrap();
    let error = client.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    links.stop();
    assert!(TcpStream::connect(relay).is_err());
}

#[test]
fn the_election_address_is_replaced_by_the_relays() {
    let pairing = Pairing::new(Some("127.0.0.1:20001".parse().unwrap()));
    let message = |address: &str| {
        let mut bytes = (-65536_i64).to_be_bytes().to_vec();
        bytes.extend(1_i64.to_be_bytes());
        bytes.extend(u32::try_from(address.len()).unwrap().to_be_bytes());
        bytes.extend(address.as_bytes());
        bytes
    };
    let mut client = pairing.connect();
    let mut sent = message("127.0.0.1:31001");
    sent.extend(b"then more");
    for byte in sent {
        client.write_all(&[byte]).unwrap();
    }
    let server = pairing.accept();
    let mut expected = message("127.0.0.1:20001");
    expected.extend(b"then more");
    expect(&server, &expected);
}

#[test]
fn links_are_selected_by_servers() {
    let pairing = Pairing::new(None);
    let links = &pairing.links;
    assert_eq!(links.one_way(1, 2).unwrap().pairs, [(1, 2)]);
    assert_eq!(links.to(2).unwrap().pairs, [(1, 2)]);
    assert_eq!(links.around(2).unwrap().pairs, [(1, 2), (2, 1)]);
    let is_passable = || {
        let table = links.table.lock();
        [(1, 2), (2, 1)].map(|pair| table.is_passable(&[pair]))
    };
    links.isolate(1).unwrap();
    assert_eq!(is_passable(), [false; 2]);
    links.heal();
    assert_eq!(is_passable(), [true; 2]);
    assert!(matches!(
        links.isolate(3),
        Err(Error::NoSuchServer { id: 3, .. })
    ));
}
