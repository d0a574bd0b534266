//! The signals that end a command, and what ends with it.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::failure::Failure;

/// A signal that asks the program to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndSignal {
    /// Ctrl-C.
    Interrupt,
    Terminate,
    /// The terminal is gone.
    Hangup,
}

/// The end signals from now on. Those that the program was started to ignore, as by `nohup`, are never received.
pub(crate) struct Signals {
    interrupt: Option<Signal>,
    terminate: Option<Signal>,
    hangup: Option<Signal>,
}

/// Ends the program some time after a signal, if it has not ended by then: it may be stuck, as in writing to a standard
/// error that is not read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watchdog {
    is_stopped: Arc<AtomicBool>,
}

/// Passes a signal on to a command that has something to clean up.
#[derive(Debug, Default)]
pub(crate) struct Interrupter(watch::Sender<Option<EndSignal>>);

/// The signal that ends a command which cleans up after itself.
#[derive(Debug)]
pub(crate) struct Interruption(watch::Receiver<Option<EndSignal>>);

impl Interrupter {
    /// Returns the signal of the running command. While it exists, a signal does not drop the command.
    pub(crate) fn interruption(&self) -> Interruption {
        // That of an earlier command is over.
        self.0.send_replace(None);
        Interruption(self.0.subscribe())
    }

    /// Passes a signal on. Returns whether the command waits for it.
    fn interrupt(&self, signal: EndSignal) -> bool {
        self.0.send(Some(signal)).is_ok()
    }
}

impl Interruption {
    /// Runs work until it ends, or drops it at the signal and fails; the caller then cleans up.
    pub(crate) async fn end<T>(
        &mut self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        tokio::select! {
            biased;
            done = work => done,
            signal = self.signal() => Err(Failure::interrupted(signal)),
        }
    }

    async fn signal(&mut self) -> EndSignal {
        match self.0.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(signal)) => *signal,
            // Without a sender there are no signals.
            _ => std::future::pending().await,
        }
    }
}

impl EndSignal {
    /// Returns the exit status of a program that it has ended, as shells report it.
    pub(crate) const fn exit_status(self) -> u8 {
        128 + self.number()
    }

    const fn number(self) -> u8 {
        match self {
            Self::Hangup => 1,
            Self::Interrupt => 2,
            Self::Terminate => 15,
        }
    }

    fn listen(self, ignored: u64) -> Result<Option<Signal>, Failure> {
        if ignored >> (self.number() - 1) & 1 == 1 {
            return Ok(None);
        }
        let listening = signal(SignalKind::from_raw(self.number().into()));
        listening
            .map(Some)
            .map_err(|error| Failure::operation(format!("cannot wait for signals: {error}"), None))
    }
}

impl Signals {
    pub(crate) fn listen() -> Result<Self, Failure> {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let ignored = ignored(&status);
        Ok(Self {
            interrupt: EndSignal::Interrupt.listen(ignored)?,
            terminate: EndSignal::Terminate.listen(ignored)?,
            hangup: EndSignal::Hangup.listen(ignored)?,
        })
    }

    /// Runs work until it ends, or drops it at a signal and fails.
    ///
    /// If the work has an [`Interruption`], it learns of the signal and goes on until that is dropped, to clean
    /// up, or until another signal comes. If it fails meanwhile for another reason, that is the failure.
    pub(crate) async fn end<T>(
        &mut self,
        interrupter: &Interrupter,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let mut work = pin!(work);
        let signal = tokio::select! {
            biased;
            done = &mut work => return done,
            signal = self.any() => signal,
        };
        if interrupter.interrupt(signal) {
            tokio::select! {
                biased;
                done = work => if let Err(failure) = done && !failure.is_end() {
                    return Err(failure);
                },
                () = interrupter.0.closed() => {}
                _ = self.any() => {}
            }
        }
        Err(Failure::interrupted(signal))
    }

    /// Discards a Ctrl-C that came before now. Returns whether there was one.
    pub(crate) async fn discard_interrupt(&mut self) -> bool {
        // A signal is delivered when the runtime reads its events, and not all commands wait for some.
        tokio::task::yield_now().await;
        received(&mut self.interrupt).now_or_never().is_some()
    }

    /// Waits for one that ends even a program that takes Ctrl-C for something else.
    pub(crate) async fn terminated(&mut self) -> EndSignal {
        tokio::select! {
            () = received(&mut self.terminate) => EndSignal::Terminate,
            () = received(&mut self.hangup) => EndSignal::Hangup,
        }
    }

    /// Waits for any of them.
    pub(crate) async fn any(&mut self) -> EndSignal {
        tokio::select! {
            () = received(&mut self.interrupt) => EndSignal::Interrupt,
            () = received(&mut self.terminate) => EndSignal::Terminate,
            () = received(&mut self.hangup) => EndSignal::Hangup,
        }
    }
}

impl Watchdog {
    /// Waits for a signal, and then [`GRACE`], from now on.
    pub(crate) fn start(&self) {
        let watchdog = self.clone();
        std::thread::spawn(move || {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let Ok(runtime) = runtime.enable_all().build() else {
                return;
            };
            let waiting = async {
                let signal = Signals::listen().ok()?.any().await;
                watchdog.is_over().await.then_some(signal)
            };
            if let Some(signal) = runtime.block_on(waiting) {
                std::process::exit(signal.exit_status().into());
            }
        });
    }

    /// Lets the program take as long as it needs.
    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// Waits, and returns whether the program has to end then.
    pub(crate) async fn is_over(&self) -> bool {
        let never = std::future::pending::<()>();
        drop(tokio::time::timeout(GRACE, never).await);
        !self.is_stopped.load(Ordering::Relaxed)
    }
}

async fn received(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// Returns the signals that a process ignores, one bit each, by what Linux says of it; none if that is unknown.
fn ignored(status: &str) -> u64 {
    let mut lines = status.lines();
    let mask = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

/// How long a command that a signal has ended may take to clean up.
const GRACE: Duration = Duration::from_secs(10);

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_status_of_the_process() {
        let status = "Name:\tzk\nSigBlk:\t0000000000000002\nSigIgn:\t0000000000001001\n";
        assert_eq!(ignored(status), 0x1001);
        assert_eq!((ignored(""), ignored("SigIgn:\tx")), (0, 0));
    }

    #[tokio::test]
    async fn a_discarded_ctrl_c_does_not_end_the_next_command() {
        // Also if the tests were started with Ctrl-C ignored.
        let mut signals = Signals {
            interrupt: EndSignal::Interrupt.listen(0).unwrap(),
            terminate: None,
            hangup: None,
        };
        assert!(!signals.discard_interrupt().await);
        interrupt();
        // Another thread may receive it, a little later.
        let discarded = async { while !signals.discard_interrupt().await {} };
        let discarded = tokio::time::timeout(Duration::from_secs(10), discarded).await;
        discarded.expect("the signal arrives within 10 s");
        let command = async {
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
            Ok(())
        };
        let ended = signals.end(&Interrupter::default(), command).await;
        assert!(ended.is_ok(), "{ended:?}");
    }

    #[tokio::test]
    async fn what_fails_after_a_signal_is_the_failure() {
        let interrupter = Interrupter::default();
        for (fails, expected) in [(true, "the disk is full"), (false, "")] {
            let mut signals = Signals {
                interrupt: EndSignal::Interrupt.listen(0).unwrap(),
                terminate: None,
                hangup: None,
            };
            interrupt();
            let mut interruption = interrupter.interruption();
            let work = async {
                let never = std::future::pending::<Result<(), _>>();
                let ended = interruption.end(never).await;
                if fails {
                    return Err(Failure::operation("the disk is full", None));
                }
                ended
            };
            let ended = signals.end(&interrupter, work);
            let ended = tokio::time::timeout(Duration::from_secs(10), ended).await;
            let failure = ended.expect("the signal arrives within 10 s").unwrap_err();
            assert_eq!(failure.to_string(), expected);
            assert_eq!(failure.signal().is_none(), fails);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_program_that_is_stuck_ends_unless_it_may_take_its_time() {
        let watchdog = Watchdog::default();
        assert!(watchdog.is_over().await);
        watchdog.stop();
        assert!(!watchdog.is_over().await);
    }

    /// Sends Ctrl-C to this program, which must wait for it.
    pub(crate) fn interrupt() {
        let own = std::process::id().to_string();
        let sent = std::process::Command::new("kill")
            .args(["-s", "INT", &own])
            .status();
        assert!(sent.expect("kill starts").success());
    }
}
