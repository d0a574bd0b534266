//! The figures of all fleets, the table of them, and the targets.
//!
//! Pure: no I/O and no clock.

use std::fmt;

use zk_bench::table;

use crate::counters::Rates;
use crate::first_acquire::FirstAcquire;

/// What the sessions are, and what they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fleet {
    /// Clients of `zk-wire`, which only ping.
    Plain,
    Idle,
    /// Each session holds a lock.
    Holding,
    HoldingOnFollowers,
    HoldingOnLeader,
    CuratorIdle,
    CuratorHolding,
}

/// The figures of one fleet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) fleet: Fleet,
    /// The number of sessions.
    pub(crate) size: u32,
    pub(crate) rates: Rates,
    /// The memory of all sessions: the heap of our process, or the resident memory of Curator's. In KiB.
    pub(crate) memory: f64,
}

/// The figures of all fleets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Results {
    pub(crate) rows: Vec<Row>,
    pub(crate) first_acquire: Option<FirstAcquire>,
}

/// A figure and its bound.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Verdict {
    target: String,
    figure: f64,
    most: f64,
    /// The digits after the point to which the figure is rounded before it is compared.
    digits: usize,
}

impl Fleet {
    const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain client",
            Self::Idle => "idle",
            Self::Holding => "holding",
            Self::HoldingOnFollowers => "holding, on followers",
            Self::HoldingOnLeader => "holding, on the leader",
            Self::CuratorIdle => "Curator, idle",
            Self::CuratorHolding => "Curator, holding",
        }
    }
}

impl Row {
    /// Returns the share of one session.
    fn each(&self, all: f64) -> f64 {
        all / f64::from(self.size)
    }

    fn cpu_millis_each(&self) -> f64 {
        self.each(self.rates.cpu) * 1e3
    }
}

impl Results {
    /// Formats the figures in Markdown.
    pub(crate) fn table(&self) -> String {
        let mut table = table(&[
            "fleet",
            "sessions",
            "requests/s",
            "each",
            "quorum writes/s",
            "each",
            "client CPU, ms/s each",
            "memory, KiB each",
        ]);
        for row in &self.rows {
            let Row { rates, .. } = row;
            table.add_row([
                row.fleet.name().to_owned(),
                row.size.to_string(),
                format!("{:.0}", rates.requests),
                format!("{:.3}", row.each(rates.requests)),
                format!("{:.1}", rates.writes),
                format!("{:.3}", row.each(rates.writes)),
                format!("{:.3}", row.cpu_millis_each()),
                format!("{:.1}", row.each(row.memory)),
            ]);
        }
        table.to_string()
    }

    /// Compares the figures with the targets.
    pub(crate) fn verdicts(&self) -> Vec<Verdict> {
        let mut verdicts: Vec<_> = self.rows.iter().flat_map(|row| self.of(row)).collect();
        if let Some(first) = self.first_acquire {
            let FirstAcquire {
                idleness,
                first_millis,
                warm_millis,
            } = first;
            verdicts.push(Verdict {
                target: format!(
                    "first acquire after {idleness:?} of idleness over a warm one ({first_millis:.2} ms over \
                     {warm_millis:.2} ms)"
                ),
                figure: first_millis / warm_millis,
                most: MOST_FIRST_ACQUIRE,
                digits: 2,
            });
        }
        verdicts
    }

    /// Compares one fleet with its targets.
    fn of(&self, row: &Row) -> Vec<Verdict> {
        let verdict = |what: &str, figure, most, digits| Verdict {
            target: format!("{} × {}: {what}", row.size, row.fleet.name()),
            figure,
            most,
            digits,
        };
        let requests = row.each(row.rates.requests);
        let writes = row.each(row.rates.writes);
        match row.fleet {
            Fleet::Idle => {
                let mut verdicts = vec![
                    verdict("quorum writes/s of all", row.rates.writes, 0.0, 2),
                    verdict("client CPU, ms/s each", row.cpu_millis_each(), MOST_CPU, 3),
                ];
                let mut rows = self.rows.iter();
                let plain = rows.find(|it| it.fleet == Fleet::Plain && it.size == row.size);
                if let Some(plain) = plain {
                    let most = plain.each(plain.rates.requests) * PLAIN_ALLOWANCE;
                    let what = "requests/s each, next to the plain client's";
                    verdicts.insert(0, verdict(what, requests, most, 3));
                }
                verdicts
            }
            Fleet::Holding => vec![
                verdict("requests/s each", requests, MOST_REQUESTS, 2),
                verdict("quorum writes/s each", writes, MOST_WRITES, 2),
            ],
            Fleet::HoldingOnFollowers if row.size == SIZE_OF_TOTAL => {
                let what = "quorum writes/s of all";
                vec![verdict(what, row.rates.writes, MOST_WRITES_OF_ALL, 1)]
            }
            Fleet::HoldingOnLeader => {
                vec![verdict("quorum writes/s each", writes, MOST_WRITES, 2)]
            }
            Fleet::HoldingOnFollowers
            | Fleet::Plain
            | Fleet::CuratorIdle
            | Fleet::CuratorHolding => Vec::new(),
        }
    }
}

impl Verdict {
    /// Compares the rounded figure: the requests for the counters are in it, and a ping may fall outside the window.
    fn is_met(&self) -> bool {
        let power = 10_f64.powi(i32::try_from(self.digits).unwrap_or(0));
        (self.figure * power).round() / power <= self.most
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.is_met() { "met" } else { "MISSED" };
        let (figure, most, digits) = (self.figure, self.most, self.digits);
        write!(
            f,
            "{verdict}: {}: {figure:.digits$}, at most {most:.digits$}",
            self.target
        )
    }
}

/// The most requests per second of an idle session, over those of the plain client.
const PLAIN_ALLOWANCE: f64 = 1.02;
/// The most CPU time of an idle session, in milliseconds per second.
const MOST_CPU: f64 = 0.05;
/// The most requests per second of a session that holds a lock.
const MOST_REQUESTS: f64 = 1.5;
/// The most quorum writes per second of a session that holds a lock.
const MOST_WRITES: f64 = 0.4;
/// The most quorum writes per second of [`SIZE_OF_TOTAL`] holders on followers together.
const MOST_WRITES_OF_ALL: f64 = 50.0;
const SIZE_OF_TOTAL: u32 = 1000;
/// The most time of the first acquire after idleness, over that of a warm one.
const MOST_FIRST_ACQUIRE: f64 = 2.0;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Returns the figures of a fleet, from those of one session.
    fn row(fleet: Fleet, size: u32, requests: f64, writes: f64, cpu_millis: f64) -> Row {
        let all = |each: f64| each * f64::from(size);
        Row {
            fleet,
            size,
            rates: Rates {
                requests: all(requests),
                writes: all(writes),
                cpu: all(cpu_millis) / 1e3,
            },
            memory: all(12.5),
        }
    }

    fn verdicts(rows: &[Row]) -> Vec<String> {
        let results = Results {
            rows: rows.to_vec(),
            first_acquire: None,
        };
        let verdicts = results.verdicts();
        verdicts.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_idle_session_is_compared_with_the_plain_client_of_its_size() {
        let rows = [
            row(Fleet::Plain, 10, 9.0, 0.0, 0.01),
            row(Fleet::Plain, 1000, 0.3, 0.0, 0.01),
            row(Fleet::Idle, 1000, 0.306, 0.0, 0.05),
        ];
        assert_eq!(
            verdicts(&rows),
            [
                "met: 1000 × idle: requests/s each, next to the plain client's: 0.306, at most 0.306",
                "met: 1000 × idle: quorum writes/s of all: 0.00, at most 0.00",
                "met: 1000 × idle: client CPU, ms/s each: 0.050, at most 0.050",
            ]
        );
        let worse = [rows[1], row(Fleet::Idle, 1000, 0.31, 0.0001, 0.06)];
        let missed = verdicts(&worse);
        assert_eq!(missed.len(), 3);
        assert!(
            missed.iter().all(|it| it.starts_with("MISSED")),
            "{missed:?}"
        );
    }

    #[test]
    fn holders_are_judged_by_the_role_of_their_server() {
        let rows = [
            row(Fleet::Holding, 1000, 1.5, 0.404, 0.1),
            row(Fleet::HoldingOnFollowers, 1000, 9.0, 0.06, 0.1),
            row(Fleet::HoldingOnFollowers, 100, 9.0, 0.4, 0.1),
            row(Fleet::HoldingOnLeader, 1000, 9.0, 0.41, 0.1),
            row(Fleet::CuratorHolding, 1000, 9.0, 9.0, 9.0),
        ];
        assert_eq!(
            verdicts(&rows),
            [
                "met: 1000 × holding: requests/s each: 1.50, at most 1.50",
                "met: 1000 × holding: quorum writes/s each: 0.40, at most 0.40",
                "MISSED: 1000 × holding, on followers: quorum writes/s of all: 60.0, at most 50.0",
                "MISSED: 1000 × holding, on the leader: quorum writes/s each: 0.41, at most 0.40",
            ]
        );
    }

    #[test]
    fn the_first_acquire_is_compared_with_a_warm_one() {
        let verdict = |first_millis| {
            let first = FirstAcquire {
                idleness: Duration::from_secs(60),
                first_millis,
                warm_millis: 2.0,
            };
            let results = Results {
                rows: Vec::new(),
                first_acquire: Some(first),
            };
            results.verdicts()[0].to_string()
        };
        assert_eq!(
            verdict(4.0),
            "met: first acquire after 60s of idleness over a warm one (4.00 ms over 2.00 ms): 2.00, at most 2.00"
        );
        assert!(verdict(4.1).starts_with("MISSED"));
    }

    #[test]
    fn a_row_has_the_load_of_all_sessions_and_of_each() {
        let results = Results {
            rows: vec![row(Fleet::Holding, 100, 1.2, 0.4, 0.208)],
            first_acquire: None,
        };
        let table = results.table();
        let cells: Vec<_> = table.lines().last().unwrap().split('|').collect();
        let cells: Vec<_> = cells.iter().map(|cell| cell.trim()).collect();
        assert_eq!(
            cells[1..9],
            [
                "holding", "100", "120", "1.200", "40.0", "0.400", "0.208", "12.5"
            ]
        );
    }
}
