//! Listens on loopback TCP, one port for each simulated server.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::ensemble::Ensemble;

impl Ensemble {
    /// Listens on a free port of 127.0.0.1 for each server, and serves the clients that connect.
    ///
    /// Connections are served on the runtime of the caller, in its time: they need a runtime whose time is not paused.
    /// See [`serve`](Self::serve).
    ///
    /// # Errors
    ///
    /// If a port cannot be bound.
    pub async fn listen(&self) -> io::Result<SimListener> {
        self.listen_from(0).await
    }

    /// As [`listen`](Self::listen), on `first_port` for the first server and the ports that follow for the others; any
    /// free ports if it is 0.
    ///
    /// # Errors
    ///
    /// If a port cannot be bound.
    pub async fn listen_from(&self, first_port: u16) -> io::Result<SimListener> {
        let mut addresses = Vec::new();
        let mut tasks = JoinSet::new();
        for (server, port) in (1..=self.servers()).zip(first_port..) {
            let port = if first_port == 0 { 0 } else { port };
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
            addresses.push(listener.local_addr()?);
            tasks.spawn(accept(self.clone(), server, listener));
        }
        Ok(SimListener {
            addresses,
            _tasks: tasks,
        })
    }
}

/// The ports of a simulated ensemble.
///
/// # Dropping
///
/// The ports are closed, and the connections with them. The sessions end after their timeouts.
#[derive(Debug)]
pub struct SimListener {
    addresses: Vec<SocketAddr>,
    _tasks: JoinSet<()>,
}

impl SimListener {
    /// Returns the address of each server, in their order.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns the connect string, such as `127.0.0.1:40001,127.0.0.1:40002`.
    pub fn connect_string(&self) -> String {
        let addresses: Vec<_> = self.addresses.iter().map(ToString::to_string).collect();
        addresses.join(",")
    }
}

async fn accept(ensemble: Ensemble, server: usize, listener: TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            accepted = listener.accept() => {
                // One that is gone again is no reason to stop.
                if let Ok((stream, _)) = accepted {
                    let ensemble = ensemble.clone();
                    connections.spawn(async move {
                        let _late = stream.set_nodelay(true);
                        // Its client sees how it ends.
                        let _ended = ensemble.serve(server, stream).await;
                    });
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}
