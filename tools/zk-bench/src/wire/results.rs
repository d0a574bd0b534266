//! The measurements of all rounds, as text in Markdown.

use std::fmt::Write as _;

use super::client_kind::ClientKind;
use super::load::Load;
use super::system_calls::TracedRuns;
use super::workload::{Operation, WORKLOADS, Workload};
use crate::environment::Environment;
use crate::table::{Spread, table};

/// The measurements of all rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Results {
    pub(super) environment: Environment,
    pub(super) series: Vec<Series>,
    /// Or why there are none.
    pub(super) system_calls: Result<Vec<TracedRuns>, String>,
}

/// The measurements of one client in one workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    pub(super) workload: Workload,
    pub(super) client: ClientKind,
    /// In the order of the rounds.
    pub(super) loads: Vec<Load>,
}

impl Series {
    pub(super) const fn new(workload: Workload, client: ClientKind) -> Self {
        Self {
            workload,
            client,
            loads: Vec::new(),
        }
    }

    fn spread(&self, number: impl Fn(&Load) -> f64) -> Spread {
        Spread::of(self.loads.iter().map(number))
    }
}

impl Results {
    /// Formats the targets, all figures and the environment.
    pub fn section(&self, command: &str) -> String {
        let rounds = self.series.first().map_or(0, |series| series.loads.len());
        let has_java = self
            .series
            .iter()
            .any(|series| series.client == ClientKind::Java);
        let java = if has_java {
            ", the Java client of the servers' version"
        } else {
            ""
        };
        let mut text = format!(
            "{}- clients: zk-wire of this revision, zookeeper-client 0.11.2{java}; rounds: {rounds}\n\n{}\n{}\n\n",
            self.environment.describe(command),
            self.targets(),
            self.figures()
        );
        match &self.system_calls {
            Err(why) => {
                let _ = writeln!(text, "System calls were not counted: {why}.");
            }
            Ok(runs) if !runs.is_empty() => {
                let [first, .., last] = WORKLOADS;
                text += &[calls_of(first, runs), calls_of(last, runs)].join("\n");
            }
            Ok(_) => {}
        }
        text
    }

    /// Formats the targets and the measured figures.
    fn targets(&self) -> String {
        let mut table = table(&["figure", "target", "measured", "min–max", "reached"]);
        let mut add = |figure: String, most: f64, measured: Option<Spread>| {
            let Some(measured) = measured else { return };
            let is_reached = measured.median <= most;
            table.add_row([
                figure,
                format!("≤ {most}"),
                measured.middle(3),
                measured.range(3),
                if is_reached { "yes" } else { "**no**" }.to_owned(),
            ]);
        };
        let get = WORKLOADS[0];
        let [wire, socket, other] = [
            ClientKind::ZkWire,
            ClientKind::BlockingSocket,
            ClientKind::ZookeeperClient,
        ];
        let time = |load: &Load| 1.0 / load.rate();
        add(
            format!("{get}: time over that of a {}", socket.name()),
            1.1,
            self.ratio([(wire, get), (socket, get)], time),
        );
        add(
            format!("{get}: CPU over that of {}", other.name()),
            0.5,
            self.ratio([(wire, get), (other, get)], Load::cpu_micros),
        );
        let of = |operation| {
            let mut all = WORKLOADS.into_iter();
            all.find(|workload| workload.operation == operation)
        };
        let with_list = of(Operation::CreateListDelete).zip(of(Operation::CreateDelete));
        add(
            "create with list + delete: time over create + delete".to_owned(),
            // The create, which is half of it, may take 1.05 of its time.
            1.025,
            with_list.and_then(|(with, without)| self.ratio([(wire, with), (wire, without)], time)),
        );
        let mut names = String::new();
        for client in OTHERS {
            if !self.series.iter().any(|series| series.client == client) {
                continue;
            }
            let slower = self.slower_than(client);
            let count = u32::try_from(slower.len()).unwrap_or(u32::MAX);
            let figure = format!(
                "workloads slower than with the {} in every round",
                client.name()
            );
            add(figure, 0.0, Some(Spread::of([f64::from(count)])));
            if !slower.is_empty() {
                let _ = write!(
                    names,
                    "\nSlower than with the {}: {}.\n",
                    client.name(),
                    slower.join("; ")
                );
            }
        }
        format!("{table}\n{names}")
    }

    /// Returns the workloads in which zk-wire was slower than a client in every round.
    fn slower_than(&self, client: ClientKind) -> Vec<String> {
        let all = WORKLOADS.into_iter();
        let slower = all.filter(|workload| {
            let of = [(ClientKind::ZkWire, *workload), (client, *workload)];
            let ratio = self.ratio(of, Load::rate);
            ratio.is_some_and(|ratio| ratio.max < 1.0)
        });
        slower.map(|workload| workload.to_string()).collect()
    }

    fn figures(&self) -> String {
        let mut table = table(&[
            "workload",
            "client",
            "rate /s",
            "min–max",
            "p50 ms",
            "p99 ms",
            "zk-wire is",
            "min–max",
            "CPU µs",
            "allocations",
            "system calls",
        ]);
        for series in &self.series {
            let &Series {
                workload, client, ..
            } = series;
            let rate = series.spread(Load::rate);
            let ratio = self.ratio(
                [(ClientKind::ZkWire, workload), (client, workload)],
                Load::rate,
            );
            let ratio = ratio.filter(|_| client != ClientKind::ZkWire);
            let [times, range] = ratio.map_or_else(Default::default, |ratio| {
                [format!("{} ×", ratio.middle(2)), ratio.range(2)]
            });
            let is_counted = series.loads.iter().all(|load| load.allocations.is_some());
            let allocations = series.spread(|load| load.allocations_each().unwrap_or_default());
            let runs = self.system_calls.as_deref().unwrap_or_default();
            let calls = runs.iter().find_map(|runs| runs.total(client, workload));
            table.add_row([
                workload.to_string(),
                client.name().to_owned(),
                rate.middle(0),
                rate.range(0),
                series.spread(|load| load.p50_micros / 1e3).middle(3),
                series.spread(|load| load.p99_micros / 1e3).middle(3),
                times,
                range,
                series.spread(Load::cpu_micros).middle(1),
                if is_counted {
                    allocations.middle(1)
                } else {
                    String::new()
                },
                calls.map_or_else(String::new, |calls| format!("{calls:.1}")),
            ]);
        }
        table.to_string()
    }

    /// Returns the ratio of a number of two series, round by round; `None` if one of them was not measured.
    fn ratio(
        &self,
        of: [(ClientKind, Workload); 2],
        number: impl Fn(&Load) -> f64,
    ) -> Option<Spread> {
        let find = |(client, workload): (ClientKind, Workload)| {
            let mut all = self.series.iter();
            all.find(|it| it.client == client && it.workload == workload)
        };
        let numbers = |series: &Series| series.loads.iter().map(&number).collect::<Vec<_>>();
        let [one, other] = of.map(find);
        Some(Spread::of_ratios(numbers(one?), numbers(other?)))
    }
}

/// Lists the system calls of each client in a workload by name.
fn calls_of(workload: Workload, runs: &[TracedRuns]) -> String {
    let mut text = format!("System calls, {workload}:\n\n");
    for client in ClientKind::ALL {
        let mut calls = runs
            .iter()
            .filter_map(|runs| runs.by_name(client, workload));
        if let Some(calls) = calls.next() {
            let _ = writeln!(text, "- {}: {calls}", client.name());
        }
    }
    text
}

/// The clients that zk-wire replaces.
const OTHERS: [ClientKind; 2] = [ClientKind::ZookeeperClient, ClientKind::Java];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::other_work::OtherWork;

    /// Returns results of three rounds in the first workload, with these rates and CPU times per operation.
    fn results(all: &[(ClientKind, [f64; 3], f64)]) -> Results {
        let load = |rate: &f64, cpu_micros: f64| Load {
            operations: 1000,
            seconds: 1000.0 / rate,
            p50_micros: 1e6 / rate,
            p99_micros: 2e6 / rate,
            cpu_seconds: cpu_micros / 1e3,
            allocations: Some(4000),
        };
        let text = str::to_owned;
        Results {
            environment: Environment {
                machine: text("m"),
                system: text("s"),
                other_work: OtherWork { share: Some(0.0) },
                ensemble: text("e"),
                data: text("memory"),
            },
            series: all
                .iter()
                .map(|(client, rates, cpu_micros)| Series {
                    workload: WORKLOADS[0],
                    client: *client,
                    loads: rates.iter().map(|rate| load(rate, *cpu_micros)).collect(),
                })
                .collect(),
            system_calls: Err(text("strace is not installed")),
        }
    }

    fn cells<'a>(text: &'a str, start: &str) -> Vec<&'a str> {
        let is_it = |line: &&str| line.trim_start_matches("| ").starts_with(start);
        let row = text.lines().find(is_it);
        let row = row.unwrap_or_else(|| panic!("no {start} in {text}"));
        row.trim_matches('|').split('|').map(str::trim).collect()
    }

    #[test]
    fn targets_are_judged_by_the_ratios_of_the_rounds() {
        use ClientKind::{BlockingSocket, ZkWire, ZookeeperClient};
        let text = results(&[
            (BlockingSocket, [5000.0, 2500.0, 5000.0], 10.0),
            (ZkWire, [4000.0, 2000.0, 4000.0], 20.0),
            (ZookeeperClient, [3000.0, 2500.0, 3000.0], 50.0),
        ])
        .section("x");
        let get = WORKLOADS[0];
        assert_eq!(
            cells(&text, &format!("{get}: time"))[1..],
            ["≤ 1.1", "1.250", "1.250–1.250", "**no**"]
        );
        assert_eq!(
            cells(&text, &format!("{get}: CPU"))[1..],
            ["≤ 0.5", "0.400", "0.400–0.400", "yes"]
        );
        // In one of the rounds it was faster.
        let slower = cells(&text, "workloads slower than with the zookeeper-client");
        assert_eq!(slower[2..], ["0.000", "0.000–0.000", "yes"]);
        assert!(text.contains("not counted: strace is not installed."));
        let rates = cells(&text, &format!("{get} "));
        assert_eq!(rates[1..4], ["blocking socket", "5000", "2500–5000"]);
        assert_eq!(rates[6..], ["0.80 ×", "0.80–0.80", "10.0", "4.0", ""]);
    }

    #[test]
    fn a_workload_that_is_slower_in_every_round_is_named() {
        use ClientKind::{Java, ZkWire};
        let text = results(&[
            (ZkWire, [90.0, 95.0, 99.0], 1.0),
            (Java, [100.0, 100.0, 100.0], 1.0),
        ])
        .section("x");
        let slower = cells(&text, "workloads slower than with the Java client");
        assert_eq!(slower[2..], ["1.000", "1.000–1.000", "**no**"]);
        let name = format!("Slower than with the Java client: {}.", WORKLOADS[0]);
        assert!(text.contains(&name), "{text}");
        assert!(!text.contains("slower than with the zookeeper-client"));
    }
}
