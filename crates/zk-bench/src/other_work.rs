//! How much other processes did while a benchmark ran.
//!
//! What came before it, like the compilation of the benchmark, does not count; what starts later does.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::time::Duration;
use std::time::Instant;

use serde::Deserialize;
use serde::Serialize;

/// What processes that are not part of a benchmark used of the processors while it ran.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OtherWork {
    /// The part of one core, 1 being all of it; `None` if it could not be measured.
    pub share: Option<f64>,
}

/// Measures [`OtherWork`] from its beginning on.
#[derive(Debug)]
pub struct WorkMeter {
    began: Instant,
    before: Vec<Process>,
}

/// A process that is no thread of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    id: i32,
    parent: i32,
    /// What it and those of its children that have ended used so far.
    ticks: u64,
}

impl OtherWork {
    /// Whether the figures are not to be kept: other processes used too much, or how much is unknown.
    pub fn is_too_much(self) -> bool {
        self.share.is_none_or(|share| share > MOST)
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
    /// Begins to measure.
    pub fn begin() -> Self {
        Self {
            began: Instant::now(),
            before: processes(),
        }
    }

    /// Returns what others did since the beginning.
    ///
    /// This process and its descendants are not others, and neither are the servers, by their process ids, which have to
    /// run still.
    pub fn read(&self, servers: impl IntoIterator<Item = i32>) -> OtherWork {
        let mut ours: BTreeSet<i32> = servers.into_iter().collect();
        ours.extend(i32::try_from(std::process::id()));
        OtherWork {
            share: share(&self.before, &processes(), &ours, self.began.elapsed()),
        }
    }
}

/// The part of one core that processes used in this time which are neither `ours` nor descend from them.
fn share(
    before: &[Process],
    after: &[Process],
    ours: &BTreeSet<i32>,
    time: Duration,
) -> Option<f64> {
    if before.is_empty() || after.is_empty() || time.is_zero() {
        return None;
    }
    // What a process used that has ended since is with its parent now, so that the sums tell.
    let used = others(after, ours).saturating_sub(others(before, ours));
    let seconds = Duration::from_millis(used.saturating_mul(1000 / TICKS_PER_SECOND));
    Some(seconds.as_secs_f64() / time.as_secs_f64())
}

/// The sum of what all others have used.
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

/// All processes there are now; none if they cannot be read.
fn processes() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let texts =
        entries.filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("stat")).ok());
    texts.filter_map(|text| process(&text)).collect()
}

/// The process of a `/proc/<id>/stat`, unless it is a thread of the kernel: those work for others, and for us as well.
fn process(stat: &str) -> Option<Process> {
    let id = stat.split(' ').next()?.parse().ok()?;
    // The name is in parentheses and may have some itself.
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

/// The most that others may use, of one core.
const MOST: f64 = 0.03;
/// `USER_HZ`, which Linux keeps whatever its own clock is.
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
        // 1 is the first process, 10 our parent, 20 is ours with a child, 30 is a server, 40 is another one.
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
        // One that began later, and one that ended: what it used is with its parent.
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
}
