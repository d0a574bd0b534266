//! `zk top` on real servers: its reports, its requests, and the dashboard in a terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::pty::OpenptFlags;
use rustix::termios::{LocalModes, Winsize};
use serde_json::Value;
use tokio::process::Child;
use zk_core::Session;
use zk_harness::{DataStore, Ensemble};
use zk_lock::FairLock;

use crate::{MAX_WAIT, command, finish, in_memory};

async fn session(connect: &str) -> Session {
    let builder = Session::builder(connect).session_timeout(LONG);
    let builder = builder.operation_timeout(LONG);
    builder.connect().await.expect("a session")
}

/// Of sessions and their operations: machines stand still for seconds.
const LONG: Duration = Duration::from_secs(30);

/// One report in JSON.
async fn report(connect: &str, arguments: &[&str]) -> Value {
    let arguments = [&["top", "--once", "--json"], arguments].concat();
    let output = finish(command(connect, &arguments), b"").await;
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    serde_json::from_str(&text).expect("JSON")
}

/// One report in which every server has answered all that it was asked.
async fn complete_report(connect: &str, arguments: &[&str]) -> Value {
    let mut last = Value::Null;
    let reporting = async {
        loop {
            last = report(connect, arguments).await;
            let mut servers = rows(&last, "servers").iter();
            if servers.all(|server| FIGURES.iter().all(|figure| server[figure].is_number())) {
                return;
            }
        }
    };
    let waited = tokio::time::timeout(MAX_WAIT, reporting).await;
    assert!(
        waited.is_ok(),
        "waited for a report with {FIGURES:?}, and got {last}"
    );
    last
}

const FIGURES: [&str; 5] = [
    "requests_per_second",
    "zxid_lag",
    "connections",
    "watches",
    "log_bytes",
];

/// Waits until a second contender waits for the lock.
async fn until_contended(ensemble: &Ensemble, session: &Session, path: &str) {
    let mut polls = tokio::time::interval(Duration::from_millis(20));
    let waiting = async {
        loop {
            polls.tick().await;
            session.sync(path).with_quorum().await.unwrap();
            let mut watches = 0;
            for server in ensemble.servers() {
                watches += server.wchs().await.unwrap().watches;
            }
            // Each watches its own node, and the second one that of the first one.
            if session.list(path).await.unwrap().0.len() == 2 && watches >= 3 {
                return;
            }
        }
    };
    let waited = tokio::time::timeout(MAX_WAIT, waiting).await;
    waited.expect("a second contender waits for the lock");
}

fn rows<'a>(report: &'a Value, view: &str) -> &'a Vec<Value> {
    report[view]
        .as_array()
        .unwrap_or_else(|| panic!("no {view} in {report}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_has_servers_sessions_watches_and_recipes() {
    let ensemble = in_memory(3).await;
    let connect = ensemble.connect_string();
    let (holder, waiter) = (session(&connect).await, session(&connect).await);
    let lock = FairLock::new(&holder, "/locks/nightly").unwrap();
    let guard = lock.acquire().await.unwrap();
    let waiting = FairLock::new(&waiter, "/locks/nightly").unwrap();
    let waiting = tokio::spawn(async move { waiting.acquire().await.map(drop) });
    until_contended(&ensemble, &holder, "/locks/nightly").await;
    for name in ["qn-", "qn-", "qn-"] {
        let path = format!("/queue/{name}");
        holder
            .create(path.as_str(), "x")
            .sequential()
            .parents()
            .await
            .unwrap();
    }
    holder
        .create("/odd\u{202e}name", "x")
        .ephemeral()
        .await
        .unwrap();

    let shown = complete_report(
        &connect,
        &[
            "--show",
            "servers,sessions,hosts,watches,watchers,tree,recipes",
        ],
    )
    .await;
    // The crawl has found the recipes; the one with most waiters comes first.
    let recipes = rows(&shown, "recipes").iter();
    let recipes: Vec<_> = recipes
        .map(|row| (row["path"].as_str(), row["waiting"].as_u64()))
        .collect();
    assert_eq!(
        recipes,
        [(Some("/queue"), Some(3)), (Some("/locks/nightly"), Some(1))],
        "{shown}"
    );
    let roles: Vec<_> = rows(&shown, "servers")
        .iter()
        .map(|row| row["role"].as_str())
        .collect();
    assert_eq!(
        roles.iter().filter(|role| **role == Some("leader")).count(),
        1,
        "{shown}"
    );
    assert_eq!(
        roles
            .iter()
            .filter(|role| **role == Some("follower"))
            .count(),
        2,
        "{shown}"
    );
    let id = format!("{:#x}", holder.id().as_i64());
    let own = rows(&shown, "sessions")
        .iter()
        .find(|row| row["session"] == id.as_str());
    assert_eq!(own.expect("the session")["ephemerals"], 2, "{shown}");
    assert_eq!(rows(&shown, "hosts")[0]["host"], "127.0.0.1", "{shown}");
    let watched = rows(&shown, "watches");
    assert!(
        watched
            .iter()
            .any(|row| row["path"].as_str().unwrap().starts_with("/locks/nightly/")),
        "{shown}"
    );
    assert!(!rows(&shown, "watchers").is_empty(), "{shown}");
    let queue = rows(&shown, "tree")
        .iter()
        .find(|row| row["path"] == "/queue");
    assert_eq!(queue.expect("the queue")["descendants"], 3, "{shown}");
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap();

    let lock = FairLock::new(&holder, "/locks/nightly").unwrap();
    let guard = lock.acquire().await.unwrap();
    let shown = report(
        &connect,
        &["--watch-path", "/locks/nightly", "--watch-path", "/queue"],
    )
    .await;
    let recipes = rows(&shown, "recipes");
    let of = |path: &str| {
        recipes
            .iter()
            .find(|row| row["path"] == path)
            .expect("a row")
    };
    let lock = of("/locks/nightly");
    assert_eq!(
        (lock["kind"].as_str(), lock["waiting"].as_u64()),
        (Some("lock"), Some(0))
    );
    assert_eq!(lock["session"], id.as_str(), "{shown}");
    assert!(
        lock["holder"]
            .as_str()
            .is_some_and(|holder| holder.contains('/')),
        "{shown}"
    );
    let queue = of("/queue");
    assert_eq!(
        (queue["kind"].as_str(), queue["waiting"].as_u64()),
        (Some("queue"), Some(3))
    );
    guard.release().await.unwrap();
    holder.close().await.unwrap();
    waiter.close().await.unwrap();
    ensemble.down().await.unwrap();
}

/// The packets per second that each server counts while something runs, without those of the counting itself.
async fn packets_per_second(ensemble: &Ensemble, during: impl Future<Output = ()>) -> Vec<f64> {
    let received = async || {
        let mut all = Vec::new();
        for server in ensemble.servers() {
            all.push(server.srvr().await.unwrap().received);
        }
        all
    };
    let before = received().await;
    let began = Instant::now();
    during.await;
    let seconds = began.elapsed().as_secs_f64();
    let counts = before.into_iter().zip(received().await);
    #[expect(clippy::cast_precision_loss, reason = "they are hundreds")]
    // One of them is the second count.
    let rates = counts.map(|(before, after)| (after - before - 1) as f64 / seconds);
    rates.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn top_costs_a_server_at_most_five_packets_per_second() {
    const SECONDS: &str = "20s";
    const EVERYTHING: &str = "servers,sessions,hosts,watches,watchers,tree,recipes";
    let ensemble = in_memory(3).await;
    let connect = ensemble.connect_string();
    // Enough that a crawl goes on for longer than the test.
    let writer = session(&connect).await;
    writer.create("/crawled", "").await.unwrap();
    let creates = (0..3_000).map(|number| {
        let create = writer.create(format!("/crawled/{number}"), "");
        create.into_future()
    });
    for created in futures_util::future::join_all(creates).await {
        created.unwrap();
    }
    writer.close().await.unwrap();
    // The time of a measurement: there is nothing to wait for.
    let wait = async {
        let idle = tokio::time::timeout(Duration::from_secs(5), std::future::pending::<()>());
        drop(idle.await);
    };
    let idle = packets_per_second(&ensemble, wait).await;
    for (what, views) in [
        ("servers", "servers"),
        ("everything and a crawl", EVERYTHING),
    ] {
        let mut shown = Value::Null;
        let reporting = async {
            shown = report(&connect, &["--interval", SECONDS, "--show", views]).await;
        };
        let rates = packets_per_second(&ensemble, reporting).await;
        let own: Vec<_> = rates
            .iter()
            .zip(&idle)
            .map(|(rate, idle)| rate - idle)
            .collect();
        println!("{what}: {own:.2?} packets per second and server, idle {idle:.2?}");
        for rate in own {
            assert!(rate > 0.0 && rate <= 5.0, "{what}: {rate}");
        }
        for server in rows(&shown, "servers") {
            let own = server["own_requests_per_second"]
                .as_f64()
                .expect("a number");
            assert!((0.5..=5.0).contains(&own), "{server}");
        }
        assert_eq!(rows(&shown, "servers").len(), 3, "{shown}");
    }
    ensemble.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn top_says_which_words_a_server_does_not_allow() {
    let ensemble = Ensemble::builder()
        .servers(1)
        .data(DataStore::Memory)
        .four_letter_words(["srvr"])
        .start()
        .await
        .expect("a server starts");
    let connect = ensemble.connect_string();
    let arguments = [
        "top",
        "--once",
        "--show",
        "servers,watches",
        "--admin-port",
        "1",
    ];
    let output = finish(command(&connect, &arguments), b"").await;
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("standalone"), "{shown}");
    for word in ["mntr", "conf", "dirs", "wchp"] {
        let line =
            format!("{word} is not available from {connect}: add {word} to 4lw.commands.whitelist");
        assert!(shown.contains(&line), "{word}: {shown}");
    }
    ensemble.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn top_leaves_no_session() {
    let ensemble = in_memory(1).await;
    let no_session = async |when: &str| {
        let mut polls = tokio::time::interval(Duration::from_millis(50));
        // Half the time after which a session that was not closed would end.
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            let mntr = ensemble.servers()[0].mntr().await.unwrap();
            let sessions = mntr.number::<u64>("zk_global_sessions");
            if sessions == Some(0) {
                return;
            }
            let now = Instant::now();
            assert!(now < deadline, "{sessions:?} sessions after 5 s {when}");
            polls.tick().await;
        }
    };
    no_session("of an idle server").await;
    let shown = report(&ensemble.connect_string(), &["--watch-path", "/x"]).await;
    // It was read through a session.
    assert_eq!(rows(&shown, "recipes")[0]["kind"], "no node", "{shown}");
    no_session("without zk top").await;
    ensemble.down().await.unwrap();
}

/// `zk top` in a terminal of its own.
struct Terminal {
    child: Child,
    master: File,
    /// The other side, which keeps its settings after the program has ended.
    slave: File,
    screen: Arc<Mutex<vt100::Parser>>,
}

impl Terminal {
    fn start(connect: &str, arguments: &[&str]) -> Self {
        let master = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        rustix::pty::grantpt(&master).unwrap();
        rustix::pty::unlockpt(&master).unwrap();
        let name = rustix::pty::ptsname(&master, Vec::new()).unwrap();
        let name = name.into_string().unwrap();
        let slave = File::options().read(true).write(true).open(name).unwrap();
        let size = Winsize {
            ws_row: 24,
            ws_col: 80,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        rustix::termios::tcsetwinsize(&master, size).unwrap();
        let mut command = command(connect, arguments);
        command
            .stdin(Stdio::from(slave.try_clone().unwrap()))
            .stdout(Stdio::from(slave.try_clone().unwrap()))
            .env("TERM", "xterm-256color");
        let child = command.spawn().expect("zk starts");
        let master = File::from(master);
        let screen = Arc::new(Mutex::new(vt100::Parser::new(24, 80, 0)));
        let (mut output, parser) = (master.try_clone().unwrap(), Arc::clone(&screen));
        // It ends with the terminal.
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = output.read(&mut bytes) {
                parser.lock().unwrap().process(&bytes[..read]);
            }
        });
        Self {
            child,
            master,
            slave,
            screen,
        }
    }

    fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    fn text(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    /// Waits until the screen shows what is expected.
    async fn shows(&self, what: &str, is_there: impl Fn(&str) -> bool) -> String {
        let mut looks = tokio::time::interval(Duration::from_millis(50));
        let deadline = Instant::now() + MAX_WAIT;
        loop {
            let text = self.text();
            if is_there(&text) {
                return text;
            }
            assert!(
                Instant::now() < deadline,
                "no {what} within a minute:\n{text}"
            );
            looks.tick().await;
        }
    }

    fn is_raw(&self) -> bool {
        let modes = rustix::termios::tcgetattr(&self.slave).unwrap().local_modes;
        !modes.contains(LocalModes::ICANON | LocalModes::ECHO)
    }

    /// Waits for the end of the program, and checks that the terminal is as it was.
    async fn ends_restored(mut self) {
        let ended = tokio::time::timeout(MAX_WAIT, self.child.wait());
        let status = ended.await.expect("it ends within a minute").unwrap();
        assert!(status.success(), "{status}");
        let is_restored = |text: &str| {
            let parser = self.screen.lock().unwrap();
            let screen = parser.screen();
            !screen.alternate_screen() && !screen.hide_cursor() && !text.contains("zk top")
        };
        self.shows("restored screen", is_restored).await;
        assert!(!self.is_raw(), "it is still raw");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_dashboard_shows_a_killed_leader_and_leaves_the_terminal() {
    let ensemble = in_memory(3).await;
    let connect = ensemble.connect_string();
    let writer = session(&connect).await;
    let load = tokio::spawn(async move {
        writer.create("/load", "").await.unwrap();
        let mut pace = tokio::time::interval(Duration::from_millis(5));
        loop {
            pace.tick().await;
            // Writes fail for a while when the leader is killed.
            drop(writer.set("/load", "x").await);
        }
    });
    let mut terminal = Terminal::start(&connect, &["top", "--watch-path", "/load"]);
    let leader = ensemble.wait_leader(MAX_WAIT).await.unwrap();
    let address = leader.client_address();
    let text = terminal
        .shows("three servers", |text| {
            text.contains("3 of 3 servers serving") && text.contains(&format!("leader {address}"))
        })
        .await;
    assert!(text.contains("[1 servers]"), "{text}");
    assert!(terminal.is_raw());
    // The writer may be connected to any of the servers.
    let rates = |text: &str| {
        let rows = text.lines().filter(|line| line.contains("127.0.0.1:"));
        let mut cells = rows.filter_map(|row| row.get(28..36)?.trim().parse::<f64>().ok());
        cells.any(|rate| rate > 20.0)
    };
    terminal.shows("load", rates).await;
    leader.kill().await.unwrap();
    // Each server is asked at moments of its own, so that either may be shown first.
    terminal
        .shows("new leader and killed server", |text| {
            text.contains("2 of 3 servers serving")
                && text.contains(&format!("and no longer {address}"))
                && text.contains(&format!("{address} is down: "))
                && text.contains(&format!("!{address}"))
        })
        .await;
    leader.start().unwrap();
    terminal
        .shows("server that is back", |text| {
            text.contains("3 of 3 servers serving")
                && text.contains(&format!("{address} answers again"))
        })
        .await;
    terminal.press("c7");
    terminal
        .shows("recipes", |text| {
            text.contains("[7 recipes]") && text.contains("/load")
        })
        .await;
    terminal.press("6");
    terminal
        .shows("tree", |text| {
            text.contains("nodes") && text.contains("/zookeeper")
        })
        .await;
    terminal.press("/zookeeper\r");
    terminal
        .shows("filter", |text| {
            text.contains("only rows with \"zookeeper\"")
        })
        .await;
    terminal.press("q");
    terminal.ends_restored().await;
    load.abort();
    ensemble.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn signals_and_control_c_leave_the_terminal_as_it_was() {
    let ensemble = in_memory(1).await;
    let connect = ensemble.connect_string();
    for signal in [None, Some("TERM"), Some("INT"), Some("HUP")] {
        let mut terminal = Terminal::start(&connect, &["top"]);
        terminal
            .shows("server", |text| text.contains("standalone"))
            .await;
        match (signal, terminal.child.id()) {
            (Some(signal), Some(pid)) => {
                let kill = std::process::Command::new("kill")
                    .args(["-s", signal, &pid.to_string()])
                    .status();
                assert!(kill.unwrap().success(), "{signal}");
            }
            (Some(_), None) => panic!("it has ended"),
            (None, _) => terminal.press("\u{3}"),
        }
        terminal.ends_restored().await;
    }
    ensemble.down().await.unwrap();
}
