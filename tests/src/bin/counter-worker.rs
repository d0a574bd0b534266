//! Counts in several tasks at once until its input ends, and at least so many times.
//!
//! ```text
//! counter-worker NAME CONNECT PATH SESSION_TIMEOUT_MS HISTORY TASKS COUNT PAUSE_MS
//! ```
//!
//! Each operation is recorded in the file `HISTORY`: increments, and now and then a read. Every task pauses at random for up
//! to `PAUSE_MS` after each. At the end the session is closed.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::bail;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use zk_core::{RetryPolicy, Session};
use zk_counter::{AtomicCounter, CounterError, CounterOptions};
use zk_history::{Op, Pending, Recorder, ReturnValue};

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, connect, path, timeout, history, tasks, count, pause] = arguments.as_slice() else {
        bail!(
            "usage: counter-worker NAME CONNECT PATH SESSION_TIMEOUT_MS HISTORY TASKS COUNT PAUSE_MS"
        );
    };
    let (end, ends) = watch::channel(false);
    std::thread::spawn(move || {
        // The input has no commands; an error counts as its end.
        drop(std::io::stdin().read_to_end(&mut Vec::new()));
        end.send_replace(true);
    });
    let sessions = Session::builder(connect)
        .session_timeout(Duration::from_millis(timeout.parse()?))
        .sessions(RetryPolicy::default());
    let options = CounterOptions::default().with_timeout(Duration::from_secs(120));
    let counter = AtomicCounter::new(&sessions, path.as_str(), &options)?;
    let recorder = Recorder::open(Path::new(history), name)?;
    let work = Work {
        counter,
        left: Arc::new(AtomicU64::new(count.parse()?)),
        ends,
        pause: pause.parse()?,
    };
    let mut running = JoinSet::new();
    for task in 0..tasks.parse::<u32>()? {
        running.spawn(work.clone().run(recorder.task(task.to_string())));
    }
    running.join_all().await;
    drop(work);
    recorder.check()?;
    if let Ok(session) = sessions.session().await {
        drop(session.close().await);
    }
    Ok(())
}

#[derive(Clone)]
struct Work {
    counter: AtomicCounter,
    /// How many increments are to be done at least.
    left: Arc<AtomicU64>,
    ends: watch::Receiver<bool>,
    pause: u64,
}

impl Work {
    async fn run(mut self, recorder: Recorder) {
        let path = self.counter.path().to_string();
        while self.left.load(Ordering::SeqCst) > 0 || !*self.ends.borrow() {
            let pending = recorder.invoke(Op::increment(&path, 1));
            match self.counter.increment().await {
                Ok(_) => {
                    pending.ok(());
                    let one_less = |left: u64| Some(left.saturating_sub(1));
                    // It never refuses.
                    let _before =
                        self.left
                            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
                }
                Err(error) => record(pending, &error),
            }
            if fastrand::u8(0..20) == 0 {
                let pending = recorder.invoke(Op::read(&path));
                match self.counter.get().await {
                    Ok(number) => pending.ok(ReturnValue::value(number)),
                    Err(error) => record(pending, &error),
                }
            }
            if self.pause > 0 {
                let pause = Duration::from_millis(fastrand::u64(0..self.pause));
                drop(timeout(pause, self.ends.wait_for(|over| *over)).await);
            }
        }
    }
}

fn record(pending: Pending, error: &CounterError) {
    if error.is_outcome_unknown() {
        pending.unknown(error.to_string());
    } else {
        pending.failed(error.to_string());
    }
}
