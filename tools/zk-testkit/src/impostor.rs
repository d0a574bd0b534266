//! A server that grants sessions, and does not know the password that it asks for.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// A server in the place of one of the ensemble. It serves while it exists.
#[derive(Debug)]
#[non_exhaustive]
pub struct Impostor {
    /// Its address.
    pub address: SocketAddr,
    /// The requests that each connection sent after the proof, which is wrong: types as in the protocol.
    pub requests: mpsc::UnboundedReceiver<i32>,
    /// How often it was sent a proof of the client.
    pub proofs: mpsc::UnboundedReceiver<()>,
}

/// Starts an impostor.
///
/// # Panics
///
/// If it cannot listen.
///
/// # Cancel safety
///
/// Safe: nothing listens if it is dropped.
pub async fn impostor() -> Impostor {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await;
    let listener = listener.expect("a port is free");
    let address = listener.local_addr().expect("it listens");
    let (request_sender, requests) = mpsc::unbounded_channel();
    let (proof_sender, proofs) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            if request_sender.is_closed() {
                return;
            }
            tokio::spawn(serve(client, request_sender.clone(), proof_sender.clone()));
        }
    });
    Impostor {
        address,
        requests,
        proofs,
    }
}

async fn serve(
    mut client: TcpStream,
    requests: mpsc::UnboundedSender<i32>,
    proofs: mpsc::UnboundedSender<()>,
) -> io::Result<()> {
    frame(&mut client).await?;
    let mut granted = Vec::new();
    // Protocol, timeout, session, password, and whether it is read-only.
    granted.extend(0_i32.to_be_bytes());
    granted.extend(30_000_i32.to_be_bytes());
    granted.extend(7_i64.to_be_bytes());
    granted.extend(16_i32.to_be_bytes());
    granted.extend([7; 16]);
    granted.push(0);
    write(&mut client, &granted).await?;
    for token in [
        "realm=\"zk-sasl-md5\",nonce=\"chosen\",qop=\"auth\",charset=utf-8,algorithm=md5-sess",
        "rspauth=00000000000000000000000000000000",
    ] {
        let request = frame(&mut client).await?;
        if token.starts_with("rspauth") {
            // Without a receiver the test has ended.
            proofs.send(()).map_err(io::Error::other)?;
        }
        let mut reply = request[..4].to_vec();
        reply.extend(0_i64.to_be_bytes());
        reply.extend(0_i32.to_be_bytes());
        reply.extend(u32::try_from(token.len()).unwrap_or(0).to_be_bytes());
        reply.extend(token.as_bytes());
        write(&mut client, &reply).await?;
    }
    loop {
        let request = frame(&mut client).await?;
        let kind = request[4..8].try_into().map_or(0, i32::from_be_bytes);
        requests.send(kind).map_err(io::Error::other)?;
    }
}

/// Reads a message of at least the length of a header.
async fn frame(client: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; client.read_u32().await? as usize];
    client.read_exact(&mut bytes).await?;
    if bytes.len() < 8 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(bytes)
}

async fn write(client: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    client
        .write_u32(u32::try_from(bytes.len()).unwrap_or(0))
        .await?;
    client.write_all(bytes).await
}
