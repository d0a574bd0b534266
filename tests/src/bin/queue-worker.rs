//! Offers items to a work queue, or processes them, until its input ends.
//!
//! ```text
//! queue-worker NAME CONNECT PATH SESSION_TIMEOUT_MS HISTORY producer|consumer
//! ```
//!
//! Each operation is recorded in the file HISTORY. A producer offers NAME-0, NAME-1 and so on, some of them with
//! another priority or a delay. A consumer claims items and acknowledges most of them; it rejects or drops the others.
//! After a lost session it opens a new one. At the end of the standard input it closes the session and ends.

use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use anyhow::bail;
use tokio::sync::watch;
use zk_core::codec::Text;
use zk_core::{ErrorClass, Session};
use zk_history::{Op, Recorder, ReturnValue};
use zk_queue::{OfferError, WorkOptions, WorkQueue};

/// The state of both roles.
struct Worker {
    name: String,
    connect: String,
    path: String,
    timeout: Duration,
    recorder: Recorder,
    ends: watch::Receiver<bool>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, connect, path, timeout, history, role] = arguments.as_slice() else {
        bail!("usage: queue-worker NAME CONNECT PATH SESSION_TIMEOUT_MS HISTORY producer|consumer");
    };
    let (end, ends) = watch::channel(false);
    std::thread::spawn(move || {
        // The input has no commands; an error counts as its end.
        drop(std::io::stdin().read_to_end(&mut Vec::new()));
        end.send_replace(true);
    });
    let worker = Worker {
        name: name.clone(),
        connect: connect.clone(),
        path: path.clone(),
        timeout: Duration::from_millis(timeout.parse()?),
        recorder: Recorder::open(Path::new(history), name)?,
        ends,
    };
    match role.as_str() {
        "producer" => worker.produce().await,
        "consumer" => worker.consume().await,
        other => bail!("unknown role {other:?}: use producer or consumer"),
    }
    worker.recorder.check()?;
    Ok(())
}

impl Worker {
    fn is_over(&self) -> bool {
        *self.ends.borrow()
    }

    /// Opens a session as soon as a server grants one; `None` at the end of the input.
    async fn open(&self) -> Option<Session> {
        while !self.is_over() {
            let opened = Session::builder(&self.connect)
                .session_timeout(self.timeout)
                .operation_timeout(Duration::from_secs(20))
                .connect();
            if let Ok(session) = opened.await {
                return Some(session);
            }
        }
        None
    }

    fn queue(&self, session: &Session) -> WorkQueue<String> {
        let options = WorkOptions::default()
            .with_max_deliveries(1_000_000)
            .with_segment_size(200)
            .with_owner(self.name.as_str());
        WorkQueue::with_options(session, self.path.as_str(), Text, &options)
            .expect("the path is one")
    }

    async fn produce(&self) {
        let mut number = 0_u32;
        while let Some(session) = self.open().await {
            let queue = self.queue(&session);
            while !self.is_over() {
                let item = format!("{}-{number}", self.name);
                number += 1;
                let pending = self.recorder.invoke(Op::offer(&self.path, item.as_str()));
                let mut offer = queue.offer(&item);
                if number % 10 == 3 {
                    offer = offer.priority(-1);
                }
                if number % 10 == 7 {
                    offer = offer.delay(Duration::from_millis(300));
                }
                match offer.await {
                    Ok(_) => pending.ok(()),
                    Err(error) => {
                        let class = error.class();
                        match error {
                            OfferError::Unknown(error) => pending.unknown(error.to_string()),
                            other => pending.failed(other.to_string()),
                        }
                        if class == ErrorClass::Fatal {
                            break;
                        }
                    }
                }
                self.rest(Duration::from_millis(fastrand::u64(0..60))).await;
            }
            drop(session.close().await);
        }
    }

    async fn consume(&self) {
        while let Some(session) = self.open().await {
            let queue = self.queue(&session);
            while !self.is_over() {
                let pending = self.recorder.invoke(Op::take(&self.path));
                let claim = match queue.claim_timeout(Duration::from_millis(500)).await {
                    Ok(Some(claim)) => claim,
                    // An empty result is not recorded: other consumers may have items in flight.
                    Ok(None) => {
                        pending.failed("nothing could be claimed");
                        continue;
                    }
                    Err(error) => {
                        pending.failed(error.to_string());
                        if error.class() == ErrorClass::Fatal {
                            break;
                        }
                        continue;
                    }
                };
                let item = claim.item().clone();
                pending.ok(ReturnValue::items([item.as_str()]));
                let work = Duration::from_millis(fastrand::u64(0..15));
                drop(tokio::time::timeout(work, claim.lost()).await);
                let settled = match fastrand::u8(0..20) {
                    0 => {
                        drop(claim);
                        continue;
                    }
                    1 => claim.reject(Duration::from_millis(100), "by chance").await,
                    _ => {
                        let pending = self.recorder.invoke(Op::ack(&self.path, item.as_str()));
                        let settled = claim.acknowledge().await;
                        match &settled {
                            Ok(()) => pending.ok(()),
                            Err(error) => pending.unknown(error.to_string()),
                        }
                        settled
                    }
                };
                if settled.is_err_and(|error| error.class() == ErrorClass::Fatal) {
                    break;
                }
            }
            drop(queue);
            drop(session.close().await);
        }
    }

    async fn rest(&self, time: Duration) {
        let mut ends = self.ends.clone();
        drop(tokio::time::timeout(time, ends.wait_for(|over| *over)).await);
    }
}
