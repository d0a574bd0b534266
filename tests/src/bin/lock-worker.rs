//! Contends for a lock on command, and reports each step.
//!
//! ```text
//! lock-worker NAME CONNECT PATH SESSION_TIMEOUT_MS HISTORY
//!
//! command                   replies, as lines of JSON with the name and the time
//!                           ready, once connected
//! acquire WAIT_MS           acquired | timed_out
//! check                     checked: whether the guard is valid
//! set NODE TEXT             wrote | refused: a write to a node, in a transaction of the guard
//! mark FILE TEXT            wrote | refused: a write to a register that checks tokens
//! release                   released
//! contend N HOLD_MS [FILE]  N times: acquired, then released; done at the end
//! quit                      bye: the session is closed
//!                           failed, instead of any of these
//! ```
//!
//! `contend` adds one to the number in FILE each time, by reading and writing it; only the lock excludes others.
//! It retries a failed acquire, in a new session if the old one is lost, and reports `retried`.
//!
//! While it has a guard, a thread checks every half millisecond whether the guard is valid. It reports the loss of
//! the guard once as `lost`, and a suspension of the process, with the first check after it, as `resumed`.
//!
//! Every operation on the lock and on registers is recorded in the file HISTORY, with the path without a chroot. A
//! holder relies on its guard until the last check that found it valid.
//!
//! At the end of the standard input the process ends immediately, without closing the session.

use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::task::AbortHandle;
use zk_core::{ErrorClass, Sequence, Session};
use zk_history::check::Span;
use zk_history::{Held, Op, Pending, Recorder, ReturnValue, now};
use zk_lock::{AcquireError, FairLock, Guard, LockLoss, ReleaseError};
use zk_tests::contention::{Event, Record, Register, Turn};

/// The process.
struct Worker {
    name: String,
    connect: String,
    path: String,
    session_timeout: Duration,
    session: Session,
    holding: Option<Holding>,
    recorder: Recorder,
    /// The lock's path without a chroot.
    lock: String,
}

/// A guard, and the thread that checks it.
struct Holding {
    guard: Arc<Guard>,
    from: u64,
    looks: Looks,
    lost: AbortHandle,
    held: Held,
}

/// A thread that checks whether a guard is valid.
struct Looks {
    thread: thread::JoinHandle<Option<Span>>,
    stop: mpsc::Sender<()>,
}

#[tokio::main(worker_threads = 2)]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, connect, path, timeout, history] = arguments.as_slice() else {
        bail!("usage: lock-worker NAME CONNECT PATH SESSION_TIMEOUT_MS HISTORY");
    };
    let mut commands = commands();
    let session_timeout = millis(timeout)?;
    let mut worker = Worker {
        name: name.clone(),
        connect: connect.clone(),
        path: path.clone(),
        session_timeout,
        session: open(connect, session_timeout).await?,
        holding: None,
        recorder: Recorder::open(Path::new(history), name)?,
        lock: connect
            .find('/')
            .map_or(String::new(), |chroot| connect[chroot..].to_owned())
            + path,
    };
    let session = worker.session.id().as_i64();
    tell(name, Event::Ready { session });
    while let Some(line) = commands.recv().await {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words == ["quit"] {
            break;
        }
        if let Err(error) = worker.obey(&words).await {
            let message = format!("{line}: {error:#}");
            tell(name, Event::Failed { message });
        }
    }
    if let Some(holding) = worker.holding.take() {
        holding.give_up()?;
    }
    // A session that was lost cannot be closed, and need not be.
    drop(worker.session.close().await);
    worker.recorder.check()?;
    tell(name, Event::Bye);
    Ok(())
}

impl Worker {
    async fn obey(&mut self, words: &[&str]) -> anyhow::Result<()> {
        match words {
            ["acquire", wait] => {
                anyhow::ensure!(
                    self.holding.is_none(),
                    "there is a guard already: release it first"
                );
                let lock = self.lock()?;
                let pending = self.recorder.invoke(Op::acquire(&self.lock));
                match lock.acquire_timeout(millis(wait)?).await {
                    Ok(guard) => self.holding = Some(self.hold(guard, pending)?),
                    Err(AcquireError::TimedOut(timed_out)) => {
                        let message = timed_out.to_string();
                        pending.failed(message.as_str());
                        self.tell(Event::TimedOut { message });
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            ["check"] => {
                let valid = self.guard()?.is_valid();
                self.tell(Event::Checked { valid });
            }
            ["set", node, text] => {
                let written = self.guard()?.txn().set(*node, *text).commit().await;
                self.tell(match written {
                    Ok(changed) => Event::Wrote {
                        message: format!("{changed:?}"),
                    },
                    Err(error) => Event::Refused {
                        message: format!("part {:?}: {error}", error.failed_part()),
                    },
                });
            }
            ["mark", file, text] => {
                let token = self.guard()?.fencing_token().as_u64();
                let pending = self.recorder.invoke(Op::write_fenced(*file, *text, token));
                self.tell(match Register::new(*file).write(token, text)? {
                    Ok(()) => {
                        pending.ok(());
                        Event::Wrote {
                            message: format!("with token {token}"),
                        }
                    }
                    Err(refused) => {
                        let message = format!("token {token} is below {}", refused.highest);
                        pending.failed(message.as_str());
                        Event::Refused { message }
                    }
                });
            }
            ["release"] => {
                let holding = self
                    .holding
                    .take()
                    .context("there is no guard: acquire the lock first")?;
                self.release(holding).await?;
            }
            ["contend", times, hold] => {
                self.contend(times.parse()?, millis(hold)?, None).await?;
            }
            ["contend", times, hold, file] => {
                let file = Path::new(file);
                self.contend(times.parse()?, millis(hold)?, Some(file))
                    .await?;
            }
            _ => bail!("unknown command"),
        }
        Ok(())
    }

    async fn contend(
        &mut self,
        times: u32,
        hold: Duration,
        file: Option<&Path>,
    ) -> anyhow::Result<()> {
        let mut turns = 0;
        while turns < times {
            let lock = self.lock()?;
            let pending = self.recorder.invoke(Op::acquire(&self.lock));
            match lock.acquire().await {
                Ok(guard) => {
                    let lost = guard.lost();
                    let holding = self.hold(guard, pending)?;
                    if let Some(file) = file {
                        add_one(file).await?;
                    }
                    if !hold.is_zero() {
                        drop(tokio::time::timeout(hold, lost).await);
                    }
                    self.release(holding).await?;
                    turns += 1;
                }
                Err(error) => {
                    let message = error.to_string();
                    pending.unknown(message.as_str());
                    match error.class() {
                        ErrorClass::Fatal => {
                            self.tell(Event::Retried { message });
                            self.session = open(&self.connect, self.session_timeout).await?;
                        }
                        ErrorClass::Recoverable => self.tell(Event::Retried { message }),
                        ErrorClass::Outcome => return Err(error.into()),
                    }
                }
            }
        }
        self.tell(Event::Done);
        Ok(())
    }

    /// Starts to check a guard.
    fn hold(&self, guard: Guard, pending: Pending) -> anyhow::Result<Holding> {
        let from = now();
        let node = guard.path().name().context("a lock's node has a name")?;
        let (_, sequence) = Sequence::split(node).context("a lock's node has a number")?;
        let answer = ReturnValue::token(guard.fencing_token().as_u64());
        let held = pending.granted(answer.with_sequence(sequence.number()));
        self.tell(Event::Acquired {
            token: guard.fencing_token().as_u64(),
            node: node.to_owned(),
            valid: guard.is_valid(),
        });
        let lost = guard.lost();
        let name = self.name.clone();
        let lost = tokio::spawn(async move {
            match lost.await {
                LockLoss::Released => {}
                loss => tell(
                    &name,
                    Event::Lost {
                        loss: loss.to_string(),
                    },
                ),
            }
        });
        let guard = Arc::new(guard);
        Ok(Holding {
            looks: Looks::begin(&self.name, Arc::clone(&guard)),
            lost: lost.abort_handle(),
            guard,
            from,
            held,
        })
    }

    async fn release(&self, holding: Holding) -> anyhow::Result<()> {
        let Holding {
            guard,
            from,
            looks,
            lost,
            held,
        } = holding;
        let valid = looks.end()?;
        let before = now();
        held.believed_until(if guard.is_valid() {
            before
        } else {
            valid.map_or(from, |valid| valid.to)
        });
        let guard = Arc::into_inner(guard).context("the guard has no other owner")?;
        let node = guard.path().name().context("a lock's node has a name")?;
        let (_, sequence) = Sequence::split(node).context("a lock's node has a number")?;
        let token = guard.fencing_token().as_u64();
        let time = Span::new(from, now());
        let pending = held.release();
        let released = guard.release().await;
        match &released {
            Ok(()) => pending.ok(()),
            Err(error @ ReleaseError::Lost { .. }) => pending.failed(error.to_string()),
            Err(error) => pending.unknown(error.to_string()),
        }
        lost.abort();
        let kept = !matches!(released, Err(ReleaseError::Lost { .. }));
        let outcome = match released {
            Ok(()) => "released".to_owned(),
            Err(error) => error.to_string(),
        };
        self.tell(Event::Released(Turn::new(
            &self.name,
            (token, sequence.number()),
            (time, valid),
            (kept, outcome),
        )));
        Ok(())
    }

    fn lock(&self) -> anyhow::Result<FairLock> {
        Ok(FairLock::new(&self.session, self.path.as_str())?)
    }

    fn guard(&self) -> anyhow::Result<&Guard> {
        let holding = self.holding.as_ref();
        holding
            .map(|holding| &*holding.guard)
            .context("there is no guard: acquire the lock first")
    }

    fn tell(&self, event: Event) {
        tell(&self.name, event);
    }
}

impl Holding {
    /// Records how long the guard was relied on, and drops it.
    fn give_up(self) -> anyhow::Result<()> {
        let valid = self.looks.end()?;
        self.held
            .believed_until(valid.map_or(self.from, |valid| valid.to));
        self.held.forget();
        Ok(())
    }
}

impl Looks {
    fn begin(name: &str, guard: Arc<Guard>) -> Self {
        let (stop, stopped) = mpsc::channel();
        let name = name.to_owned();
        Self {
            thread: thread::spawn(move || look(&name, &guard, &stopped)),
            stop,
        }
    }

    /// The time from the first until the last check that found the guard valid.
    fn end(self) -> anyhow::Result<Option<Span>> {
        drop(self.stop);
        let seen = self.thread.join();
        seen.map_err(|_| anyhow::anyhow!("the thread that looks at the guard has panicked"))
    }
}

fn look(name: &str, guard: &Guard, stopped: &mpsc::Receiver<()>) -> Option<Span> {
    let mut seen: Option<Span> = None;
    let mut last_look = now();
    loop {
        let before = now();
        let valid = guard.is_valid();
        let after = now();
        if valid {
            // The guard was checked at some time between the two. Only the time during which it certainly was valid
            // counts, so that a suspension of this process in between does not extend it.
            let from = seen.map_or(after, |seen| seen.from);
            seen = Some(Span::new(from, before.max(from)));
        }
        // A suspension between the two may have been before or after the check: the next check is the first one then.
        if before.saturating_sub(last_look) > STOOD {
            let stood = before - last_look;
            tell(name, Event::Resumed { stood, valid });
            last_look = after;
        } else if after.saturating_sub(before) <= STOOD {
            last_look = after;
        }
        if stopped.recv_timeout(LOOK_EVERY) == Err(mpsc::RecvTimeoutError::Disconnected) {
            return seen;
        }
    }
}

/// Reads the input on its own thread, so that it always notices its end.
fn commands() -> tokio::sync::mpsc::UnboundedReceiver<String> {
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
    thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            // The receiver is gone when the process ends by itself.
            drop(sender.send(line));
        }
        std::process::exit(2);
    });
    receiver
}

async fn open(connect: &str, session_timeout: Duration) -> anyhow::Result<Session> {
    let builder = Session::builder(connect)
        .session_timeout(session_timeout)
        .connect_timeout(Duration::from_secs(50));
    Ok(builder.connect().await?)
}

/// Adds one to a number in a file, in two separate steps.
async fn add_one(file: &Path) -> anyhow::Result<()> {
    let count: u64 = std::fs::read_to_string(file)?.trim().parse()?;
    tokio::task::yield_now().await;
    std::fs::write(file, (count + 1).to_string())?;
    Ok(())
}

fn tell(name: &str, event: Event) {
    let record = Record::now(name, event);
    let line = serde_json::to_string(&record).expect("records are texts and numbers");
    if writeln!(std::io::stdout(), "{line}").is_err() {
        std::process::exit(2);
    }
}

fn millis(word: &str) -> anyhow::Result<Duration> {
    let millis = word
        .parse()
        .with_context(|| format!("{word} is not a number of milliseconds"))?;
    Ok(Duration::from_millis(millis))
}

const LOOK_EVERY: Duration = Duration::from_micros(500);
/// A thread that did not run for this time, in nanoseconds, was suspended.
const STOOD: u64 = 1_000_000_000;
