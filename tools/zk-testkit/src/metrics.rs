//! What a crate reports to the facade `metrics`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;

use metrics::LocalRecorderGuard;
pub use metrics::Unit;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};

/// Records the metrics of one thread while it exists.
pub struct Recorder {
    snapshotter: Snapshotter,
    /// What the gauges of [`reported`](Self::reported) add up to: a snapshot has what was added since the one before.
    gauges: RefCell<BTreeMap<String, f64>>,
    _installed: LocalRecorderGuard<'static>,
}

/// A series, with what was reported since the last snapshot.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Metric {
    /// The name of the metric.
    pub name: String,
    /// Its labels, each as `key=value`.
    pub labels: Vec<String>,
    /// Its unit, if it is described with one.
    pub unit: Option<Unit>,
    /// Whether it is described.
    pub is_described: bool,
    /// What was counted, added or recorded.
    pub value: Value,
}

/// What was reported of a series.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "the facade has these three")]
pub enum Value {
    /// How many were counted.
    Counter(u64),
    /// What was added, or set since.
    Gauge(f64),
    /// What was recorded, in that order.
    Histogram(Vec<f64>),
}

impl Recorder {
    /// Records what this thread reports from now on.
    pub fn install() -> Self {
        // The guard borrows the recorder: it stays for as long as the process of the test.
        let recorder: &'static DebuggingRecorder = Box::leak(Box::new(DebuggingRecorder::new()));
        Self {
            snapshotter: recorder.snapshotter(),
            gauges: RefCell::default(),
            _installed: metrics::set_default_local_recorder(recorder),
        }
    }

    /// Returns what was reported since the last call, in the order in which the series began.
    pub fn snapshot(&self) -> Vec<Metric> {
        snapshot(&self.snapshotter)
    }

    /// Returns what was reported since the last call, as sorted lines such as `hold kind=fair [1.0, 2.0]`.
    ///
    /// A metric is called by the second of its two `names`; those of other crates are left out. Of a histogram there are
    /// the whole seconds, in ascending order; of a gauge what it now adds up to. Series without values are left out.
    ///
    /// # Panics
    ///
    /// If a gauge is below zero, or if there is a metric without a name here that begins with `prefix`.
    pub fn reported(&self, prefix: &str, names: Names) -> Vec<String> {
        let mut gauges = self.gauges.borrow_mut();
        let mut lines = Vec::new();
        for metric in self.snapshot() {
            let Some((_, short)) = names.iter().find(|(name, _)| *name == metric.name) else {
                assert!(!metric.name.starts_with(prefix), "{metric:?}");
                continue;
            };
            let series = [&[(*short).to_owned()], &metric.labels[..]].concat();
            let series = series.join(" ");
            match metric.value {
                Value::Counter(0) => {}
                Value::Counter(count) => lines.push(format!("{series} {count}")),
                Value::Gauge(value) => *gauges.entry(series).or_default() += value,
                Value::Histogram(values) if values.is_empty() => {}
                Value::Histogram(values) => {
                    let mut values: Vec<_> = values.into_iter().map(f64::floor).collect();
                    values.sort_by(f64::total_cmp);
                    lines.push(format!("{series} {values:?}"));
                }
            }
        }
        for (series, value) in gauges.iter() {
            assert!(*value >= 0.0, "{series}: {value}");
            if *value > 0.0 {
                lines.push(format!("{series} {value}"));
            }
        }
        lines.sort();
        lines
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

/// Checks that `describe` describes metrics with their units: seconds of those whose names say so, and counts.
///
/// # Panics
///
/// If a metric has no description or another unit.
pub fn assert_described(describe: impl FnOnce(), names: Names) {
    let recorder = DebuggingRecorder::new();
    metrics::with_local_recorder(&recorder, || {
        describe();
        for (name, _) in names {
            if is_of_seconds(name) {
                metrics::histogram!(*name).record(0.0);
            } else {
                metrics::gauge!(*name).set(0.0);
            }
        }
    });
    let described = snapshot(&recorder.snapshotter());
    assert_eq!(described.len(), names.len());
    for metric in described {
        let is_of_seconds = is_of_seconds(&metric.name);
        let expected = [Unit::Count, Unit::Seconds][usize::from(is_of_seconds)];
        assert_eq!(metric.unit, Some(expected), "{metric:?}");
        assert!(metric.is_described, "{metric:?}");
    }
}

fn is_of_seconds(name: &str) -> bool {
    name.ends_with("_seconds")
}

fn snapshot(snapshotter: &Snapshotter) -> Vec<Metric> {
    let snapshot = snapshotter.snapshot().into_vec().into_iter();
    let metric =
        |(key, unit, description, value): (metrics_util::CompositeKey, _, Option<_>, _)| {
            let (_, key) = key.into_parts();
            let labels = key.labels();
            Metric {
                name: key.name().to_owned(),
                labels: labels
                    .map(|label| format!("{}={}", label.key(), label.value()))
                    .collect(),
                unit,
                is_described: description.is_some(),
                value: match value {
                    DebugValue::Counter(count) => Value::Counter(count),
                    DebugValue::Gauge(value) => Value::Gauge(value.into_inner()),
                    DebugValue::Histogram(values) => {
                        Value::Histogram(values.into_iter().map(f64::from).collect())
                    }
                },
            }
        };
    snapshot.map(metric).collect()
}

/// The metrics of a crate: the name of each, and a short one for tests.
pub type Names = &'static [(&'static str, &'static str)];
