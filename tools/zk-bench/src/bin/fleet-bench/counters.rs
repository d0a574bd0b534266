//! Reads the counters of the servers, and the CPU time and memory of the clients' process.

use std::fs;
use std::future;
use std::time::Duration;

use anyhow::Context as _;
use tokio::time::Instant;
use zk_bench::cpu_time;
use zk_harness::Ensemble;

use crate::ALLOCATOR;

/// The process of the clients.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Process {
    /// This one.
    This,
    /// The one with this id.
    Other(u32),
}

/// The load of all sessions together, per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rates {
    /// Packets that reach the servers.
    pub(crate) requests: f64,
    /// Transactions.
    pub(crate) writes: f64,
    /// Seconds of CPU time of the clients.
    pub(crate) cpu: f64,
}

/// The counters at one time.
struct Counted {
    at: Instant,
    received: u64,
    zxid: u64,
    cpu: Duration,
}

impl Process {
    /// Returns the resident memory, in KiB.
    pub(crate) fn resident(self) -> anyhow::Result<f64> {
        let status = self.read("status")?;
        resident(&status).context("the process reports no resident memory")
    }

    fn cpu(self) -> anyhow::Result<Duration> {
        match self {
            Self::This => Ok(cpu_time()),
            Self::Other(_) => {
                let ticks = ticks(&self.read("stat")?);
                let ticks = ticks.context("the process reports no CPU time")?;
                Ok(Duration::from_millis(ticks * (1000 / TICKS_PER_SECOND)))
            }
        }
    }

    fn read(self, file: &str) -> anyhow::Result<String> {
        let path = match self {
            Self::This => format!("/proc/self/{file}"),
            Self::Other(id) => format!("/proc/{id}/{file}"),
        };
        fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))
    }
}

/// Lets `time` pass, and returns the load in it.
pub(crate) async fn measured(
    ensemble: &Ensemble,
    process: Process,
    time: Duration,
) -> anyhow::Result<Rates> {
    let before = counted(ensemble, process).await?;
    pass(time).await;
    let after = counted(ensemble, process).await?;
    let seconds = (after.at - before.at).as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "no run has 2^53 requests")]
    let rate = |before: u64, after: u64| after.saturating_sub(before) as f64 / seconds;
    Ok(Rates {
        requests: rate(before.received, after.received),
        writes: rate(before.zxid, after.zxid),
        cpu: after.cpu.saturating_sub(before.cpu).as_secs_f64() / seconds,
    })
}

async fn counted(ensemble: &Ensemble, process: Process) -> anyhow::Result<Counted> {
    let (mut received, mut zxid) = (0, 0);
    for server in ensemble.servers() {
        let srvr = server.srvr().await?;
        received += srvr.received;
        // Without the epoch, which does not change during the run.
        zxid = zxid.max(srvr.zxid & u64::from(u32::MAX));
    }
    Ok(Counted {
        at: Instant::now(),
        received,
        zxid,
        cpu: process.cpu()?,
    })
}

/// Returns the memory that this process has allocated and not freed, in KiB.
#[expect(clippy::cast_precision_loss, reason = "less than 2^53 bytes")]
pub(crate) fn heap() -> f64 {
    let stats = ALLOCATOR.stats();
    (stats.bytes_allocated as f64 - stats.bytes_deallocated as f64) / 1024.0
}

/// Waits for the length of a measurement.
pub(crate) async fn pass(time: Duration) {
    drop(tokio::time::timeout(time, future::pending::<()>()).await);
}

/// Returns the user and system time in a `/proc/<id>/stat`, in ticks.
fn ticks(stat: &str) -> Option<u64> {
    // The name of the program is in parentheses and may contain some.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ').skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

/// Returns the resident memory in a `/proc/<id>/status`, in KiB.
fn resident(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// `USER_HZ` of Linux.
const TICKS_PER_SECOND: u64 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_and_memory_of_another_process_are_read() {
        let stat = "42 (a) b) S 7 42 42 0 -1 4194304 9 8 0 0 100 20 3 4 20 0 1 0 99 1 1";
        assert_eq!(ticks(stat), Some(120));
        assert_eq!(ticks("42 (a) S 7"), None);
        let status = "Name:\tjava\nVmRSS:\t   2048 kB\nThreads:\t9\n";
        assert_eq!(resident(status), Some(2048.0));
        assert_eq!(resident("Name:\tjava\n"), None);
        let this = Process::Other(std::process::id());
        assert!(this.resident().unwrap() > 0.0);
        this.cpu().unwrap();
    }

    #[test]
    fn the_heap_grows_by_what_is_allocated() {
        let before = heap();
        let block = vec![1_u8; 8 << 20];
        let with = heap() - before;
        // Other tests of this process allocate as well.
        assert!((8192.0..8292.0).contains(&with), "{with}");
        drop(block);
    }
}
