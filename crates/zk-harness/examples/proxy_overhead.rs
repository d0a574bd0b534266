//! Measures the additional latency of the fault proxy.
//!
//! Two sessions with one server with its data in memory, one direct and one through a proxy, each on a blocking socket,
//! send `exists` 20,000 times each, alternating in blocks of 500.
//!
//! `cargo run --release --example proxy_overhead -p zk-harness`
#![expect(clippy::print_stdout, reason = "the figures are its output")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use zk_fault_proxy::Match;
use zk_harness::{DataStore, Ensemble};

const BLOCKS: usize = 40;
const BLOCK: usize = 500;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let ensemble = runtime.block_on(
        Ensemble::builder()
            .servers(1)
            .data(DataStore::Memory)
            .proxied(true)
            .start(),
    )?;
    let proxy = ensemble.proxy()?;
    let direct = ensemble.servers()[0].client_address();
    for rules in [0, 20] {
        for rule in 0..rules {
            proxy.on(Match::create(format!("/other-{rule}/**"))).pass();
        }
        let (direct, proxied) = measure(direct, proxy.address(1)?)?;
        println!("{rules} rules");
        println!("  direct:  {}", describe(&direct));
        println!("  proxied: {}", describe(&proxied));
        let added = median(&proxied).saturating_sub(median(&direct));
        println!("  added to the median: {added:?}");
    }
    runtime.block_on(ensemble.down())?;
    Ok(())
}

/// Returns the sorted times of the round trips to each address.
fn measure(one: SocketAddr, other: SocketAddr) -> std::io::Result<(Vec<Duration>, Vec<Duration>)> {
    let mut sides = [(connect(one)?, Vec::new()), (connect(other)?, Vec::new())];
    for block in 0..=BLOCKS {
        for (stream, times) in &mut sides {
            for _ in 0..BLOCK {
                let sent = Instant::now();
                send_exists(stream)?;
                // The first block warms up.
                if block > 0 {
                    times.push(sent.elapsed());
                }
            }
        }
    }
    let [one, other] = sides.map(|(_, mut times)| {
        times.sort();
        times
    });
    Ok((one, other))
}

fn describe(times: &[Duration]) -> String {
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    format!(
        "median {:?}, 10 % below {:?}, 10 % above {:?}, 1 % above {:?}",
        at(50),
        at(10),
        at(90),
        at(99)
    )
}

fn median(times: &[Duration]) -> Duration {
    times[(times.len() - 1) / 2]
}

/// Opens a session with a timeout of 30 s.
fn connect(address: SocketAddr) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut hello = vec![0; 12];
    hello.extend(30_000_i32.to_be_bytes());
    hello.extend(0_i64.to_be_bytes());
    hello.extend(16_i32.to_be_bytes());
    hello.extend([0; 17]);
    exchange(&mut stream, &hello)?;
    Ok(stream)
}

/// Sends `exists` for `/`.
fn send_exists(stream: &mut TcpStream) -> std::io::Result<()> {
    exchange(stream, b"\0\0\0\x01\0\0\0\x03\0\0\0\x01/\0")
}

fn exchange(stream: &mut TcpStream, payload: &[u8]) -> std::io::Result<()> {
    let len = u32::try_from(payload.len()).map_err(std::io::Error::other)?;
    stream.write_all(&[&len.to_be_bytes(), payload].concat())?;
    let mut len = [0; 4];
    stream.read_exact(&mut len)?;
    let len = usize::try_from(u32::from_be_bytes(len)).map_err(std::io::Error::other)?;
    stream.read_exact(&mut vec![0; len])
}
