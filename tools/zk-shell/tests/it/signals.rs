//! Signals while a command reads, writes or waits.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::mpsc;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, Command};
use zk_core::{Acl, AclEntry, CreateMode, Permissions, Session};
use zk_fault_proxy::Match;
use zk_harness::{DataStore, Ensemble};

use crate::subtree::create_subtree;
use crate::terminal::Terminal;
use crate::{MAX_WAIT, command, finish, with_ensemble, zk};

/// Makes a pipe with a name.
fn fifo(directory: &Path, name: &str) -> PathBuf {
    let fifo = directory.join(name);
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.expect("mkfifo starts").success());
    fifo
}

/// Waits until a program reads a pipe, and returns the end that keeps it waiting.
fn writer(fifo: &Path) -> std::fs::File {
    let (sender, opened) = mpsc::channel();
    let fifo = fifo.to_owned();
    // It blocks until there is a reader.
    std::thread::spawn(move || sender.send(std::fs::File::options().write(true).open(fifo)));
    let opened = opened.recv_timeout(MAX_WAIT);
    opened.expect("the pipe is read within a minute").unwrap()
}

async fn send(signal: &str, child: &Child) {
    let pid = child.id().expect("it runs").to_string();
    let sent = Command::new("kill").args(["-s", signal, &pid]).status();
    assert!(sent.await.expect("kill starts").success());
}

async fn ended(child: Child) -> Output {
    let ended = tokio::time::timeout(MAX_WAIT, child.wait_with_output()).await;
    ended.expect("it ends within a minute").unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_ends_a_command_whose_input_does_not_come() {
    with_ensemble(async |connect| {
        let directory = tempfile::tempdir().unwrap();
        let mut terminal = Terminal::start(connect, directory.path(), "");
        tokio::task::block_in_place(|| {
            terminal.expect("Ctrl-D leaves");
            for (at, command) in [
                "set / --file",
                "txn --file",
                "run",
                "config put /c",
                "import",
            ]
            .into_iter()
            .enumerate()
            {
                // Each has its own: the thread that reads one may live on for a while.
                let fifo = fifo(directory.path(), &at.to_string());
                terminal.line(&format!("{command} {}", fifo.display()));
                let open = writer(&fifo);
                terminal.press("\u{3}");
                terminal.expect("^C");
                // The session has lived on, and the shell goes on.
                terminal.line("stat /zookeeper");
                terminal.expect("numChildren");
                drop(open);
            }
            terminal.line("quit");
            assert!(terminal.end().0.success());
        });
        assert_eq!(zk(connect, &["ls"]).await, "[zookeeper]\nexit 0");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_a_command_and_its_session_with_its_number() {
    with_ensemble(async |connect| {
        let session = Session::builder(connect).connect().await.unwrap();
        let directory = tempfile::tempdir().unwrap();
        let fifo = fifo(directory.path(), "fifo");
        let script = directory.path().join("script");
        let lines = format!("create -e /held\nset / --file {}\n", fifo.display());
        std::fs::write(&script, lines).unwrap();
        for (signal, status) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
            let run = command(connect, &["run", script.to_str().unwrap()]).spawn();
            let run = run.unwrap();
            let open = tokio::task::block_in_place(|| writer(&fifo));
            assert!(session.exists("/held").await.unwrap().is_some());
            send(signal, &run).await;
            let output = ended(run).await;
            assert_eq!(output.status.code(), Some(status), "{signal}: {output:?}");
            assert_eq!(output.stderr, b"", "{signal}");
            session.sync("/").await.unwrap();
            let held = session.exists("/held").await.unwrap();
            assert_eq!(held, None, "{signal}: its session is closed");
            drop(open);
        }
        session.close().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_a_command_whose_output_is_not_read() {
    with_ensemble(async |connect| {
        let large = vec![b'x'; 900_000];
        let created = finish(command(connect, &["create", "/large", "-"]), &large).await;
        assert!(created.status.success(), "{created:?}");
        let mut get = command(connect, &["get", "/large"]).spawn().unwrap();
        let mut output = get.stdout.take().unwrap();
        let first = tokio::time::timeout(MAX_WAIT, output.read_u8()).await;
        assert_eq!(first.expect("it writes within a minute").unwrap(), b'x');
        // More than a pipe holds is still to be written.
        send("TERM", &get).await;
        assert_eq!(ended(get).await.status.code(), Some(143));
        drop(output);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_lives_on_while_the_output_is_not_read() {
    let (ensemble, connect, session) = proxied().await;
    session.create("/large", vec![b'x'; 900_000]).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("script");
    std::fs::write(&script, "create -e /held\nget /large\n").unwrap();
    for (signal, status) in [("INT", 130), ("TERM", 143)] {
        let mut run = command(&connect, &["run", script.to_str().unwrap()])
            .spawn()
            .unwrap();
        let mut output = run.stdout.take().unwrap();
        let mut first = [0; 20];
        let read = tokio::time::timeout(MAX_WAIT, output.read_exact(&mut first)).await;
        read.expect("it writes within a minute").unwrap();
        assert_eq!(&first, b"Created /held\nxxxxxx");
        // More than a pipe holds is still to be written, and the session is kept meanwhile.
        let held = session.exists("/held").await.unwrap().unwrap();
        let owner = held.ephemeral_owner.unwrap().as_i64();
        let proxy = ensemble.proxy().unwrap();
        let ping = proxy.on(Match::ping().session(owner)).pass();
        ping.happened(2 * MAX_WAIT).await.expect("heartbeats");
        ping.remove();
        send(signal, &run).await;
        assert_eq!(ended(run).await.status.code(), Some(status), "{signal}");
        session.sync("/").await.unwrap();
        let held = session.exists("/held").await.unwrap();
        assert_eq!(held, None, "{signal}: its session is closed");
        drop(output);
    }
    session.close().await.unwrap();
    ensemble.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_import_leaves_no_session_and_no_foreign_entry() {
    let (ensemble, connect, session) = proxied().await;
    let count = create_subtree(&session, "/app", 400).await;
    session.set_acl("/app", Acl::read_only()).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a.json");
    let file = file.to_str().unwrap();
    zk(&connect, &["export", "/app", file]).await;
    let kept = Acl::new([
        AclEntry::new(Permissions::READ, "world", "anyone"),
        AclEntry::new(Permissions::ALL, "digest", BOB),
    ]);
    // Only a user that another session can be continues below the root.
    for (user, target, rules) in [
        (None, "/copy", Acl::read_only()),
        (Some("bob:secret"), "/resumed", kept),
    ] {
        // The first of many transactions are carried out then.
        let proxy = ensemble.proxy().unwrap();
        let held = proxy.on(Match::multi("**")).nth(12).hold();
        let closed = proxy.on(Match::close_session()).pass();
        let mut import = command(&connect, &["import", file, target]);
        if let Some(user) = user {
            import.env("ZK_AUTH", user);
        }
        let mut import = import.spawn().unwrap();
        held.happened(MAX_WAIT).await.expect("it writes many nodes");
        send("INT", &import).await;
        let mut errors = BufReader::new(import.stderr.take().unwrap()).lines();
        let note = tokio::time::timeout(MAX_WAIT, errors.next_line()).await;
        let note = note.expect("it answers within a minute").unwrap().unwrap();
        assert!(
            note.starts_with("note: interrupted; what was written stays"),
            "{note}"
        );
        held.remove();
        assert_eq!(ended(import).await.status.code(), Some(130));
        let warning = errors.next_line().await.unwrap();
        assert_eq!(
            warning.is_some_and(|warning| warning
                .starts_with("warning: /resumed may be left with an entry in its access rules")),
            user.is_some()
        );
        closed
            .happened(MAX_WAIT)
            .await
            .expect("its session is closed");
        closed.remove();
        session.sync(target).await.unwrap();
        assert_eq!(session.acl(target).await.unwrap().0, rules);
    }
    let mut resumed = command(&connect, &["import", "--resume", file, "/resumed"]);
    resumed.env("ZK_AUTH", "bob:secret");
    let resumed = finish(resumed, b"").await;
    let text = String::from_utf8(resumed.stdout).unwrap();
    assert!(
        text.contains(&format!("Verified: {count} nodes equal\n")),
        "{text}"
    );
    assert_eq!(session.acl("/resumed").await.unwrap().0, Acl::read_only());
    session.close().await.unwrap();
    ensemble.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_dry_run_closes_its_session_whatever_is_not_read() {
    let (ensemble, connect, session) = proxied().await;
    for path in ["/app", "/deleted", "/kept"] {
        session.create(path, "").await.unwrap();
    }
    // Their names are more than a pipe holds.
    for node in 0..500 {
        let name = format!("{node:0>200}");
        let transaction = session.transaction().create(format!("/deleted/{name}"), "");
        let transaction = transaction.create(format!("/kept/{name}"), "");
        let ephemeral = CreateMode::Ephemeral;
        let live = format!("/kept/{name}/live");
        let transaction = transaction.create_as(live, "", ephemeral, None);
        transaction.commit().await.unwrap();
    }
    for (target, begins) in [
        ("/deleted", "delete /deleted/"),
        ("/kept", "note: kept /kept/"),
    ] {
        let proxy = ensemble.proxy().unwrap();
        let closed = proxy.on(Match::close_session()).pass();
        let arguments = ["mirror", "--dry-run", "--delete", "--to", target, "/app"];
        let mut mirror = command(&connect, &arguments).spawn().unwrap();
        let mut output = mirror.stdout.take().unwrap();
        let mut errors = mirror.stderr.take().unwrap();
        let mut first = vec![0; begins.len()];
        let read = async {
            if target == "/deleted" {
                output.read_exact(&mut first).await
            } else {
                errors.read_exact(&mut first).await
            }
        };
        let read = tokio::time::timeout(MAX_WAIT, read).await;
        read.expect("it writes within a minute").unwrap();
        assert_eq!(String::from_utf8_lossy(&first), begins);
        send("TERM", &mirror).await;
        assert_eq!(ended(mirror).await.status.code(), Some(143), "{target}");
        let closed_in_time = closed.happened(MAX_WAIT).await;
        closed_in_time.expect("its session is closed");
        closed.remove();
        drop((output, errors));
    }
    session.close().await.unwrap();
    ensemble.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_that_was_ignored_from_the_start_ends_nothing() {
    with_ensemble(async |connect| {
        let zk = env!("CARGO_BIN_EXE_zk");
        let script = format!("trap '' HUP; exec {zk} create -e /held");
        let mut child = Command::new("sh")
            .args(["-c", &script])
            .env("ZK_CONNECT", connect)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = tokio::time::timeout(MAX_WAIT, lines.next_line()).await;
        let line = line.expect("it answers within a minute").unwrap();
        assert_eq!(line.as_deref(), Some("Created /held"));
        send("HUP", &child).await;
        // Were it not ignored, this one would come too late.
        assert_eq!(
            crate::zk(connect, &["ls"]).await,
            "[held, zookeeper]\nexit 0"
        );
        assert_eq!(child.try_wait().unwrap(), None);
        drop(child.stdin.take());
        assert!(ended(child).await.status.success());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_export_leaves_no_file() {
    let (ensemble, connect, session) = proxied().await;
    session.create("/app", "").await.unwrap();
    for node in 0..200 {
        session
            .create(format!("/app/{node}"), "data")
            .await
            .unwrap();
    }
    for name in ["a.json", "a.tar", "a/"] {
        let directory = tempfile::tempdir().unwrap();
        let file = format!("{}/{name}", directory.path().display());
        let names = || {
            let entries = std::fs::read_dir(directory.path()).unwrap();
            let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            names.collect::<Vec<_>>()
        };
        // The first of many nodes are written then.
        let proxy = ensemble.proxy().unwrap();
        let held = proxy.on(Match::multi_read()).nth(6).hold();
        let export = command(&connect, &["export", "/app", &file])
            .spawn()
            .unwrap();
        held.happened(MAX_WAIT).await.expect("it reads many nodes");
        let unfinished = names();
        assert!(
            unfinished.len() == 1 && unfinished[0].starts_with(".zk-unfinished-"),
            "{unfinished:?}"
        );
        send("INT", &export).await;
        let output = ended(export).await;
        assert_eq!(output.status.code(), Some(130), "{output:?}");
        assert_eq!(names(), Vec::<String>::new(), "{name}");
        held.remove();
        let again = zk(&connect, &["export", "/app", &file]).await;
        assert!(again.starts_with("Exported 201 nodes"), "{again}");
        assert_eq!(names(), [name.trim_end_matches('/')]);
    }
    session.close().await.unwrap();
    ensemble.down().await.unwrap();
}

/// Starts a server behind a proxy, and returns its connect string and a session, too.
async fn proxied() -> (Ensemble, String, Session) {
    let ensemble = Ensemble::builder()
        .servers(1)
        .data(DataStore::Memory)
        .proxied(true);
    let ensemble = ensemble.start().await.expect("a server starts");
    let connect = ensemble.connect_string();
    let session = Session::builder(&connect).connect().await.unwrap();
    (ensemble, connect, session)
}

/// The user bob of the digest scheme, whose hash servers hide.
const BOB: &str = "bob:x";
