//! Measures the CPU use of other processes while a benchmark runs.
//!
//! CPU use before the benchmark, such as its compilation, does not count. Processes that start later do.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::time::{Duration, Instant};

/// The CPU use of processes that do not belong to the benchmark.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct OtherWork {
    /// The share of one core, between 0 and the number of cores; `None` if it could not be measured.
    pub share: Option<f64>,
}

/// Measures [`OtherWork`] since its creation.
#[derive(Debug)]
pub struct WorkMeter {
    began: Instant,
    before: Vec<Process>,
}

/// A process that is not a kernel thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    id: i32,
    parent: i32,
    /// The CPU time of the process and of its ended children.
    ticks: u64,
}

impl OtherWork {
    /// Returns whether to discard the figures: other processes used too much CPU, or it is unknown how much.
    pub fn is_too_much(self) -> bool {
        self.share.is_none_or(|share| share > MOST)
    }

    /// Returns a warning in Markdown if the figures are to be discarded, otherwise nothing.
    pub fn warning(self) -> &'static str {
        if self.is_too_much() {
            "**Other processes used the CPU during the run: discard these figures.**\n\n"
        } else {
            ""
        }
    }
}

impl fmt::Display for OtherWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.share {
            Some(share) => write!(f, "{:.1} % of one core", share * 100.0),
            None => f.write_str("unknown"),
        }
    }
}

impl WorkMeter {
    /// Starts measuring.
    pub fn begin() -> Self {
        Self {
            began: Instant::now(),
            before: processes(),
        }
    }

    /// Returns the CPU use of other processes since the start.
    ///
    /// This process, its descendants, and the servers with these process ids do not count. The servers must still run.
    pub fn read(&self, servers: impl IntoIterator<Item = i32>) -> OtherWork {
        let mut ours: BTreeSet<i32> = servers.into_iter().collect();
        ours.extend(i32::try_from(std::process::id()));
        OtherWork {
            share: share(&self.before, &processes(), &ours, self.began.elapsed()),
        }
    }
}

/// Returns the share of one core that processes used which are neither in `ours` nor descend from them.
fn share(
    before: &[Process],
    after: &[Process],
    ours: &BTreeSet<i32>,
    time: Duration,
) -> Option<f64> {
    if before.is_empty() || after.is_empty() || time.is_zero() {
        return None;
    }
    // The CPU time of an ended process is added to its parent, so the sums include it.
    let used = others(after, ours).saturating_sub(others(before, ours));
    let seconds = Duration::from_millis(used.saturating_mul(1000 / TICKS_PER_SECOND));
    Some(seconds.as_secs_f64() / time.as_secs_f64())
}

/// Returns the CPU time of all other processes.
fn others(processes: &[Process], ours: &BTreeSet<i32>) -> u64 {
    let mut ours = ours.clone();
    loop {
        let known = ours.len();
        let children = processes.iter().filter(|one| ours.contains(&one.parent));
        let children: Vec<_> = children.map(|one| one.id).collect();
        ours.extend(children);
        if ours.len() == known {
            break;
        }
    }
    let others = processes.iter().filter(|one| !ours.contains(&one.id));
    others.map(|one| one.ticks).sum()
}

/// Returns the CPU time of these processes together, in microseconds, to a hundredth of a second.
#[expect(clippy::cast_precision_loss, reason = "no process runs for 2^53 ticks")]
pub(crate) fn cpu_micros_of(ids: impl IntoIterator<Item = i32>) -> f64 {
    let stats = ids.into_iter().map(|id| format!("/proc/{id}/stat"));
    let texts = stats.filter_map(|path| fs::read_to_string(path).ok());
    let ticks: u64 = texts.filter_map(|text| Some(process(&text)?.ticks)).sum();
    ticks as f64 * 1e6 / TICKS_PER_SECOND as f64
}

/// Returns all running processes, or none if they cannot be read.
fn processes() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let texts =
        entries.filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("stat")).ok());
    texts.filter_map(|text| process(&text)).collect()
}

/// Parses a `/proc/<id>/stat`; `None` for a kernel thread, which works for the benchmark as well as for others.
fn process(stat: &str) -> Option<Process> {
    let id = stat.split(' ').next()?.parse().ok()?;
    // The name is in parentheses and may contain some.
    let (_, rest) = stat.rsplit_once(") ")?;
    let fields: Vec<_> = rest.split(' ').collect();
    let field = |number: usize| fields.get(number - 3).copied();
    if field(9)?.parse::<u64>().ok()? & KERNEL_THREAD != 0 {
        return None;
    }
    let ticks = [14, 15, 16, 17].map(|number| field(number)?.parse::<u64>().ok());
    Some(Process {
        id,
        parent: field(4)?.parse().ok()?,
        ticks: ticks.into_iter().sum::<Option<u64>>()?,
    })
}

/// The share of one core that other processes may use.
const MOST: f64 = 0.03;
/// `USER_HZ`, which is constant on Linux.
const TICKS_PER_SECOND: u64 = 100;
/// `PF_KTHREAD`.
const KERNEL_THREAD: u64 = 0x0020_0000;

#[cfg(test)]
mod tests {
    use super::*;

    const fn one(id: i32, parent: i32, ticks: u64) -> Process {
        Process { id, parent, ticks }
    }

    #[test]
    fn what_others_do_counts_and_what_is_ours_does_not() {
        // 1 is init, 10 our parent, 20 is ours with a child, 30 is a server, 40 is another process.
        let before = [
            one(1, 0, 500),
            one(10, 1, 9000),
            one(20, 10, 7),
            one(40, 1, 100),
        ];
        let ours = BTreeSet::from([20, 30]);
        let share = |after: &[Process]| {
            let share = share(&before, after, &ours, Duration::from_secs(10));
            OtherWork { share }
        };
        let mut after = before.to_vec();
        after.extend([one(21, 20, 800), one(22, 21, 100), one(30, 1, 900)]);
        after[2].ticks = 2000;
        assert_eq!(
            share(&after).share,
            Some(0.0),
            "the compilation came before"
        );
        after[3].ticks += 30;
        assert!(!share(&after).is_too_much(), "{}", share(&after));
        after[3].ticks += 1;
        assert!(share(&after).is_too_much(), "{}", share(&after));
        assert_eq!(share(&after).to_string(), "3.1 % of one core");
        // A process that started later, and one that ended, whose CPU time its parent has.
        after[3] = one(41, 1, 31);
        after[0].ticks += 100;
        assert_eq!(share(&after).to_string(), "3.1 % of one core");
    }

    #[test]
    fn what_cannot_be_measured_is_not_called_quiet() {
        let some = [one(1, 0, 1)];
        let ours = BTreeSet::new();
        for (before, after, time) in [(&[][..], &some[..], 1), (&some, &[], 1), (&some, &some, 0)] {
            let share = share(before, after, &ours, Duration::from_secs(time));
            assert!(OtherWork { share }.is_too_much());
            assert_eq!(OtherWork { share }.to_string(), "unknown");
        }
    }

    #[test]
    fn a_process_is_read_whatever_its_name_is() {
        let stat = "42 (a) b) S 7 42 42 0 -1 4194304 9 8 0 0 100 20 3 4 20 0 1 0 99 1 1";
        assert_eq!(process(stat), Some(one(42, 7, 127)));
        let thread = "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 5 0 0 20 0 1 0 2 0 0";
        assert_eq!(process(thread), None);
        for wrong in [
            "",
            "42",
            "42 (a) S 7",
            "42 (a) S 7 42 42 0 -1 x 9 8 0 0 1 2 3 4",
        ] {
            assert_eq!(process(wrong), None, "{wrong}");
        }
        let this = i32::try_from(std::process::id()).unwrap();
        assert!(processes().iter().any(|one| one.id == this));
    }

    #[test]
    fn cpu_time_of_processes_is_a_sum() {
        let this = i32::try_from(std::process::id()).unwrap();
        let limit = Instant::now();
        while cpu_micros_of([this]) < 50_000.0 {
            assert!(
                limit.elapsed() < Duration::from_secs(30),
                "30 s of work used no CPU time"
            );
        }
        assert!(cpu_micros_of([this, this]) >= 100_000.0);
        assert!(cpu_micros_of([]) == 0.0);
    }
}
