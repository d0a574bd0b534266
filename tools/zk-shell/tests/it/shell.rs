//! The interactive shell, as a person at a terminal sees it.

use std::os::unix::fs::PermissionsExt as _;

use zk_core::Session;
use zk_harness::Ensemble;

use crate::terminal::Terminal;
use crate::with_ensemble;

#[tokio::test(flavor = "multi_thread")]
async fn a_person_completes_recalls_and_interrupts() {
    with_ensemble(async |connect| {
        let session = Session::builder(connect).connect().await.unwrap();
        for path in [
            "/app",
            "/app/config",
            "/app/counter",
            "/app/items",
            "/app/items/one",
        ] {
            session
                .create(path, format!("data of {path}"))
                .await
                .unwrap();
        }
        let state = tempfile::tempdir().unwrap();
        let connect = connect.to_owned();
        let state_path = state.path().to_owned();
        let screen = tokio::task::spawn_blocking(move || {
            let mut terminal = Terminal::start(&connect, &state_path, "");
            let prompt = |place: &str| format!("{connect} connected {place}> ");
            terminal.expect("Ctrl-D leaves");
            terminal.prompt();
            // A command by its first letters, then a path level by level, ambiguous at first.
            terminal.press("tre\t");
            terminal.expect("tree ");
            terminal.press("/ap\t");
            terminal.expect("/app/");
            terminal.press("\r");
            terminal.expect("└── ");
            terminal.prompt();
            terminal.press("get /app/co\t\t");
            terminal.expect("config");
            terminal.expect("counter");
            terminal.press("n\t\r");
            terminal.expect("data of /app/config\r\n");
            // Relative paths.
            terminal.line("cd app/items");
            terminal.line("get one");
            terminal.expect("data of /app/items/one\r\n");
            terminal.line("get ../counter");
            terminal.expect("data of /app/counter\r\n");
            terminal.line("pwd");
            terminal.expect("\r\n/app/items\r\n");
            terminal.line("cd nowhere");
            terminal.expect("error: stat /app/items/nowhere: the node does not exist");
            // The last command again, from the history.
            terminal.prompt();
            terminal.press("\u{1b}[A\u{1b}[A\u{1b}[A");
            terminal.expect("get ../counter");
            terminal.press("\r");
            terminal.expect("data of /app/counter\r\n");
            // Ctrl-C ends the command and then the line, not the shell.
            terminal.line("watch /app");
            terminal.expect("watching /app, 1 node");
            terminal.press("\u{3}");
            terminal.expect("^C");
            terminal.prompt();
            terminal.press("no command at all\u{3}");
            terminal.line("get /app");
            terminal.expect("data of /app\r\n");
            // Neither data nor a line with a blank before it is kept.
            terminal.line("set /app/items confidential");
            terminal.line(" get /app/items");
            terminal.expect("confidential\r\n");
            // An ephemeral node does not hold up the shell.
            terminal.line("create -e /held");
            terminal.expect("Created /held\r\n");
            terminal.line("help quit");
            terminal.expect("Leave");
            terminal.line("lz");
            terminal.expect("there is no command 'lz'");
            // Several lines that are pasted at once.
            terminal.prompt();
            terminal.press("\u{1b}[200~get /app/config\nget /app/counter\n\u{1b}[201~\r");
            terminal.expect("data of /app/config\r\n");
            terminal.expect("data of /app/counter\r\n");
            terminal.prompt();
            // Every prompt had the ensemble, the state and the place.
            let plain = without_colours(terminal.screen());
            assert!(plain.contains(&prompt("/")), "{plain}");
            assert!(plain.contains(&prompt("/app/items")), "{plain}");
            terminal.press("\u{4}");
            let (status, screen) = terminal.end();
            assert!(status.success(), "{screen}");
            screen
        });
        let screen = screen.await.unwrap();
        // It has closed its session.
        assert!(session.exists("/held").await.unwrap().is_none(), "{screen}");
        let file = state.path().join("zk/history");
        let history = std::fs::read_to_string(&file).unwrap();
        assert!(history.contains("get ../counter\n"), "{history}");
        for left_out in ["confidential", "get /app/items"] {
            assert!(!history.contains(left_out), "{history}");
        }
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        session.close().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_asked_for_and_never_shown() {
    with_ensemble(async |connect| {
        let builder = Session::builder(connect).digest_auth("alice", "wonder\\land");
        let session = builder.connect().await.unwrap();
        let private = zk_core::Acl::creator_only();
        let create = session.create("/private", "for alice").acl(private);
        create.await.unwrap();
        let state = tempfile::tempdir().unwrap();
        let connect = connect.to_owned();
        let state_path = state.path().to_owned();
        let screen = tokio::task::spawn_blocking(move || {
            let mut terminal = Terminal::start(&connect, &state_path, "");
            terminal.expect("Ctrl-D leaves");
            terminal.line("get /private");
            terminal.expect("not permitted; it needs READ on the node");
            terminal.line("addauth alice");
            terminal.expect("Password: ");
            terminal.press("\u{3}\r");
            terminal.expect("no password was given");
            terminal.line("addauth alice");
            terminal.expect("Password: ");
            terminal.press("wonder\\land\r");
            terminal.line("get /private");
            terminal.expect("for alice\r\n");
            terminal.line("addauth --env SECOND_USER");
            terminal.line("addauth carol:secret");
            terminal.expect("the password does not belong on the line");
            terminal.line("setacl /private auth::r");
            terminal.line("getacl /private");
            // In any order.
            let entries = terminal.expect(":r\r\n") + &terminal.expect(":r\r\n");
            for user in ["digest:alice:", "digest:bob:"] {
                assert!(entries.contains(user), "{entries}");
            }
            terminal.line("quit");
            let (status, screen) = terminal.end();
            assert!(status.success(), "{screen}");
            screen
        });
        let screen = screen.await.unwrap();
        assert!(!screen.contains("wonder"), "{screen}");
        assert!(!screen.contains("hunter2"), "{screen}");
        let history = std::fs::read_to_string(state.path().join("zk/history")).unwrap();
        assert!(history.contains("get /private"), "{history}");
        for secret in ["addauth", "wonder", "secret"] {
            assert!(!history.contains(secret), "{history}");
        }
        session.close().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_takes_ctrl_c_for_no() {
    with_ensemble(async |connect| {
        let session = Session::builder(connect).connect().await.unwrap();
        for path in ["/old", "/old/a", "/old/b"] {
            session.create(path, "12345").await.unwrap();
        }
        let state = tempfile::tempdir().unwrap();
        let connect = connect.to_owned();
        let state_path = state.path().to_owned();
        let typing = tokio::task::spawn_blocking(move || {
            let mut terminal = Terminal::start(&connect, &state_path, "");
            terminal.expect("Ctrl-D leaves");
            for answer in ["\u{3}", "\r", "n\r"] {
                terminal.line("rm -r /old");
                terminal.expect(
                    "This deletes /old and all below it: 3 nodes with 15 bytes of data, 0 of them ephemeral.",
                );
                terminal.expect("Delete? [y/N] ");
                terminal.press(answer);
                terminal.expect("nothing was deleted");
            }
            // Whichever command asks: no reader is left that takes the keys of the next line.
            terminal.line("create /old/a/_c_q-lock-0000000001");
            terminal.line("locks --break /old/a");
            terminal.expect("Delete it? [y/N] ");
            terminal.press("\u{3}");
            terminal.expect("/old/a/_c_q-lock-0000000001 was not deleted");
            terminal.line("rm /old/a/_c_q-lock-0000000001");
            terminal.expect("Deleted /old/a/_c_q-lock-0000000001");
            terminal.line("ls /old");
            terminal.expect("[a, b]");
            terminal.line("rm -r /old");
            terminal.expect("Delete? [y/N] ");
            terminal.press("y\r");
            terminal.expect("Deleted /old, about 3 nodes");
            terminal.line("quit");
            terminal.end().0
        });
        assert!(typing.await.unwrap().success());
        assert!(session.exists("/old").await.unwrap().is_none());
        session.close().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_during_a_question_restores_the_terminal() {
    with_ensemble(async |connect| {
        let state = tempfile::tempdir().unwrap();
        for (line, asked, signal, status) in [
            ("rm -r /old", "Delete? [y/N] ", "TERM", 143),
            ("locks --break /old", "Delete it? [y/N] ", "HUP", 129),
            ("addauth alice", "Password: ", "TERM", 143),
        ] {
            let session = Session::builder(connect).connect().await.unwrap();
            session.create("/old", "").await.unwrap();
            let contender = "/old/_c_q-lock-0000000001";
            session.create(contender, "").await.unwrap();
            let connect = connect.to_owned();
            let state_path = state.path().to_owned();
            let typing = tokio::task::spawn_blocking(move || {
                let zk = env!("CARGO_BIN_EXE_zk");
                let command = format!("sh -c 'echo pid=$$.; exec {zk}'; echo status=$?; stty -a");
                let mut terminal = Terminal::run(&connect, &state_path, &command);
                let pid = pid(&mut terminal);
                terminal.expect("Ctrl-D leaves");
                terminal.line(line);
                terminal.expect(asked);
                kill(signal, &pid);
                terminal.expect(&format!("status={status}\r\n"));
                terminal.expect("speed ");
                terminal.end().1
            });
            let screen = typing.await.unwrap();
            let (_, settings) = screen.rsplit_once("speed ").unwrap();
            let settings: Vec<_> = settings.split_whitespace().collect();
            for setting in ["icanon", "isig", "echo"] {
                assert!(
                    settings.contains(&setting),
                    "{line}: no {setting}: {screen}"
                );
            }
            assert!(session.exists(contender).await.unwrap().is_some());
            session.delete("/old").recursive().await.unwrap();
            session.close().await.unwrap();
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_at_the_prompt_ends_the_shell_or_nothing() {
    with_ensemble(async |connect| {
        let state = tempfile::tempdir().unwrap();
        let zk = env!("CARGO_BIN_EXE_zk");
        let command = format!("echo pid=$$.; exec {zk}");
        for (signal, status) in [("TERM", 143), ("HUP", 129)] {
            let mut terminal = Terminal::run(connect, state.path(), &command);
            tokio::task::block_in_place(|| {
                let pid = pid(&mut terminal);
                terminal.expect("Ctrl-D leaves");
                terminal.prompt();
                kill("INT", &pid);
                // It came before the line, and must not end it.
                terminal.press(&format!("create /{signal}\r"));
                terminal.expect(&format!("Created /{signal}"));
                terminal.prompt();
                kill(signal, &pid);
                let (ended, screen) = terminal.end();
                assert_eq!(ended.code(), Some(status), "{screen}");
            });
        }
    })
    .await;
}

/// Returns the id of a process whose shell has written it before.
fn pid(terminal: &mut Terminal) -> String {
    terminal.expect("pid=");
    terminal.expect(".").replace('.', "")
}

fn kill(signal: &str, pid: &str) {
    let kill = std::process::Command::new("kill")
        .args(["-s", signal, pid])
        .status();
    assert!(kill.expect("kill starts").success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shell_outlives_its_servers_and_says_how_things_are() {
    let ensemble = Ensemble::builder().servers(1).start().await.unwrap();
    let connect = ensemble.connect_string();
    let state = tempfile::tempdir().unwrap();
    let mut terminal = Terminal::start(&connect, state.path(), "--timeout 8s");
    let server = ensemble.server(1).unwrap();
    tokio::task::block_in_place(|| {
        terminal.expect("Ctrl-D leaves");
        terminal.line("create /a before");
        terminal.expect("Created /a");
    });
    server.kill().await.unwrap();
    tokio::task::block_in_place(|| {
        terminal.expect("note: the connection is lost; trying to connect again");
        // Neither a completion nor a command hangs.
        terminal.press("get /\t");
        terminal.press("a\r");
        terminal.expect("error: get /a: ");
        terminal.expect("suspended");
    });
    server.start().unwrap();
    ensemble.wait_serving().await.unwrap();
    tokio::task::block_in_place(|| {
        // Its session is still there, or it is not: then the shell says so and opens another.
        terminal.expect("note: ");
        terminal.press("get /a\r");
        terminal.expect("before\r\n");
        terminal.line("quit");
        let (status, screen) = terminal.end();
        assert!(status.success(), "{screen}");
    });
    ensemble.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_names_and_data_do_not_reach_the_terminal() {
    with_ensemble(async |connect| {
        let session = Session::builder(connect).connect().await.unwrap();
        let hostile = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}5mx\r\u{8}";
        session.create("/e", hostile).await.unwrap();
        session.create("/e/\u{202e}gnp.exe", hostile).await.unwrap();
        let state = tempfile::tempdir().unwrap();
        let connect = connect.to_owned();
        let state_path = state.path().to_owned();
        let screen = tokio::task::spawn_blocking(move || {
            let mut terminal = Terminal::start(&connect, &state_path, "");
            terminal.expect("Ctrl-D leaves");
            for command in [
                "get /e",
                "ls /e",
                "ls -R /e",
                "tree /e",
                "find /e",
                "grep owned /e",
                "du --depth 5 /e",
                "locks /e",
                "watch -R --for 300ms /e",
                "config get /e",
                "ls /e/\t",
            ] {
                terminal.line(command);
                terminal.line("pwd");
                terminal.expect("\r\n/\r\n");
            }
            terminal.line("quit");
            terminal.end().1
        });
        let screen = screen.await.unwrap();
        assert!(
            screen.contains("\\u{1b}]0;owned\\u{7}\\u{1b}[2J"),
            "{screen:?}"
        );
        assert!(screen.contains("\\u{202e}gnp.exe"), "{screen:?}");
        for raw in [
            "\u{1b}]0;",
            "owned\u{7}",
            "\u{1b}[2J",
            "\u{9b}",
            "\u{202e}",
            "x\r\u{8}",
        ] {
            assert!(!screen.contains(raw), "{raw:?} in {screen:?}");
        }
        session.close().await.unwrap();
    })
    .await;
}

/// Leaves out the escape sequences of colours.
fn without_colours(screen: &str) -> String {
    let mut plain = String::new();
    let mut chars = screen.chars();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            chars.by_ref().find(char::is_ascii_alphabetic);
        } else {
            plain.push(c);
        }
    }
    plain
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_session_of_the_readme_prints_what_it_shows() {
    let readme = include_str!("../../README.md");
    let (_, session) = readme.split_once("A first session:\n\n```text\n").unwrap();
    let (session, _) = session.split_once("```").unwrap();
    with_ensemble(async |connect| {
        let directory = tempfile::tempdir().unwrap();
        let mut terminal = Terminal::start_in(connect, directory.path());
        let printed = tokio::task::block_in_place(|| {
            for line in session.lines() {
                match line.split_once("> ") {
                    Some((_, typed)) => terminal.line(typed),
                    None => drop(terminal.expect(line)),
                }
            }
            terminal.line("quit");
            terminal.end().1
        });
        let printed = without_colours(&printed);
        assert!(!printed.contains("error:"), "{printed}");
    })
    .await;
}
