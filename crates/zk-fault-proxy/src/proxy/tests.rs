//! Tests the proxy in front of plain listeners: it passes any bytes unchanged.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use proptest::prelude::*;

use super::*;
use crate::wire::{frame, handshake};

/// Sends bytes each way over a new connection, and returns what the server and the client received.
fn exchange(
    proxy: &FaultProxy,
    listener: &TcpListener,
    sent: &[u8],
    answer: &[u8],
    step: usize,
) -> (Vec<u8>, Vec<u8>) {
    let mut client = TcpStream::connect(proxy.address(1).unwrap()).unwrap();
    client.set_nodelay(true).unwrap();
    for chunk in sent.chunks(step) {
        client.write_all(chunk).unwrap();
    }
    client.shutdown(std::net::Shutdown::Write).unwrap();
    if sent.is_empty() {
        // The proxy connects to the server with the first bytes.
        return (Vec::new(), answer.to_vec());
    }
    let (mut server, _) = listener.accept().unwrap();
    let mut got = Vec::new();
    server.read_to_end(&mut got).unwrap();
    for chunk in answer.chunks(step) {
        server.write_all(chunk).unwrap();
    }
    drop(server);
    let mut answered = Vec::new();
    client.read_to_end(&mut answered).unwrap();
    (got, answered)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_pass_unchanged(
        has_handshake: bool,
        sent: Vec<u8>,
        framed: Vec<Vec<u8>>,
        answer: Vec<u8>,
        step in 1..40_usize,
    ) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = FaultProxy::start([listener.local_addr().unwrap()]).unwrap();
        let mut stream = Vec::new();
        if has_handshake {
            stream.extend(frame::wrap(&handshake::connect(Duration::from_secs(4))));
        }
        for payload in framed {
            stream.extend(frame::wrap(&payload));
        }
        stream.extend(sent);
        let (got, answered) = exchange(&proxy, &listener, &stream, &answer, step);
        prop_assert_eq!(got, stream);
        prop_assert_eq!(answered, answer);
    }
}

#[test]
fn a_reset_by_the_server_is_a_reset_for_the_client() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = FaultProxy::start([listener.local_addr().unwrap()]).unwrap();
    let mut client = TcpStream::connect(proxy.address(1).unwrap()).unwrap();
    client.write_all(b"ruok").unwrap();
    let (mut server, _) = listener.accept().unwrap();
    // With these bytes still queued, the proxy's write would fail, and it would close with a FIN.
    server.read_exact(&mut [0; 4]).unwrap();
    set_linger_zero(&server);
    drop(server);
    let error = client.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

#[test]
fn a_sender_waits_when_its_peer_does_not_read() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = FaultProxy::start([listener.local_addr().unwrap()]).unwrap();
    let mut client = TcpStream::connect(proxy.address(1).unwrap()).unwrap();
    client.write_all(b"ruok").unwrap();
    let (_server, _) = listener.accept().unwrap();
    client.set_nonblocking(true).unwrap();
    let chunk = vec![0; 1 << 20];
    let mut sent = 0;
    // Once the proxy's queue and the kernel's buffers are full, writes fail.
    let full =
        crate::wait::until_blocking(Duration::from_secs(1), Duration::from_millis(20), || {
            let mut idle = 0;
            while idle < 100 {
                match client.write(&chunk) {
                    Ok(taken) => (sent, idle) = (sent + taken, 0),
                    Err(_) => idle += 1,
                }
            }
            if sent > 64 << 20 { Ok(()) } else { Err(()) }
        });
    assert!(full.is_err(), "{sent} bytes were taken");
}

fn set_linger_zero(stream: &TcpStream) {
    rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO)).unwrap();
}
