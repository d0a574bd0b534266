//! Connects to a host, whatever number of addresses its name has.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::session::Host;

/// Connects to a host: to one address of its name after the other.
pub(super) async fn connect(host: &Host, deadline: Instant) -> io::Result<TcpStream> {
    let addresses = tokio::net::lookup_host((host.name.as_str(), host.port)).await?;
    let addresses: Vec<_> = addresses.collect();
    connect_to_one_of(&addresses, deadline).await
}

/// Gives each address an equal share of the time that is left, so that one without an answer leaves time for the others.
async fn connect_to_one_of(addresses: &[SocketAddr], deadline: Instant) -> io::Result<TcpStream> {
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    let mut untried = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
    for address in addresses {
        let share = deadline.saturating_duration_since(Instant::now()) / untried;
        untried -= 1;
        failure = match tokio::time::timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => error,
            Err(_) => io::Error::new(
                io::ErrorKind::TimedOut,
                format!("no connection to {address} within {share:?}"),
            ),
        };
    }
    Err(failure)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::net::{TcpListener, TcpSocket};

    use super::*;

    /// Returns a listener that no connection can be made to, and the connections that fill its queue.
    async fn full_listener() -> (TcpListener, Vec<TcpStream>) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        let mut queued = Vec::new();
        let enough = Duration::from_millis(200);
        while let Ok(stream) = tokio::time::timeout(enough, TcpStream::connect(address)).await {
            queued.push(stream.unwrap());
            assert!(queued.len() < 100, "the queue has no end");
        }
        (listener, queued)
    }

    #[tokio::test]
    async fn an_address_without_an_answer_leaves_time_for_the_others() {
        let (full, _queued) = full_listener().await;
        let good = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let (full, good) = (full.local_addr().unwrap(), good.local_addr().unwrap());
        let deadline = Instant::now() + Duration::from_secs(8);
        let stream = connect_to_one_of(&[full, good], deadline).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), good);
        assert!(Instant::now() < deadline, "{:?} late", deadline.elapsed());
    }

    #[tokio::test]
    async fn the_last_failure_is_reported() {
        let deadline = Instant::now() + Duration::from_secs(2);
        let none = connect_to_one_of(&[], deadline).await.unwrap_err();
        assert_eq!(none.to_string(), "the name has no address");
        let gone = TcpListener::bind(("127.0.0.1", 0))
            .await
            .unwrap()
            .local_addr();
        let refused = connect_to_one_of(&[gone.unwrap()], deadline).await;
        assert_eq!(
            refused.unwrap_err().kind(),
            io::ErrorKind::ConnectionRefused
        );
    }
}
