//! Every recipe on servers that authenticate: what its nodes permit, which rights it needs, what it says to a user
//! without them, and that nothing prints credentials. Also what each other refusal says.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zk_core::blocking::block_on;
use zk_core::wire::Certificates;
use zk_core::{Acl, AclEntry, ConnectError, Permissions, Session, SessionBuilder};
use zk_harness::{DataStore, Ensemble, SaslDigest};
use zk_sim::wait::soon;
use zk_zookeeper_client::Connect;

use self::log::{Log, printed_forms};
use self::recipes::{RECIPES, hold, hold_with};
use self::session_password::session_password;

mod calls;
mod failure;
mod log;
mod logging;
mod recipes;
mod refusals;
mod rights;
mod session_password;
mod two_sessions;

/// For what takes moments on an idle machine.
const SOON: Duration = Duration::from_secs(60);
/// Of sessions and their operations: machines stand still for seconds.
const LONG: Duration = Duration::from_secs(30);

/// The passwords of the users, which nothing may print.
const PASSWORDS: [&str; 3] = ["wonderland-7f3a", "builder-91cc", "guessed-2b8e"];

#[test]
fn each_recipe_permits_its_user_alone_and_prints_no_secret() {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().expect("a runtime");
    let mut seen = Seen::default();
    let logged = Log::of(|| runtime.block_on(use_all(&mut seen)));
    logging::assert_each_crate_is_in(&logged);
    seen.assert_no_secret_in(&logged);
    assert_documented("nodes", &seen.table);
}

/// What the use of all recipes showed.
#[derive(Default)]
struct Seen {
    /// The rows of the table of nodes.
    table: String,
    /// All debug output and errors.
    printed: Vec<String>,
    /// What nothing may print: passwords, those of sessions, and parts of the client's private key.
    secrets: Vec<Vec<u8>>,
}

impl Seen {
    fn add_session(&mut self, session: &Session) {
        let password = session_password(session.id().as_i64());
        self.secrets.push(password.to_vec());
    }

    fn add_key_of(&mut self, ensemble: &Ensemble) {
        let key = ensemble.certificates().expect("it has some").client().key;
        let key = std::fs::read_to_string(key).expect("the harness has written it");
        let lines = key.lines().filter(|line| !line.contains("---"));
        let key = STANDARD.decode(lines.collect::<String>());
        let key = key.expect("it is a PEM file");
        assert!(key.len() > 100, "{} bytes", key.len());
        // Any part of the key, since its beginning is not secret.
        let parts = key.chunks_exact(24).chain(key.rchunks_exact(24));
        self.secrets.extend(parts.map(<[u8]>::to_vec));
    }

    fn assert_no_secret_in(&self, logged: &str) {
        let printed = self.printed.join("\n");
        let passwords = PASSWORDS.map(|password| password.as_bytes().to_vec());
        let mut forms = 0;
        for secret in self.secrets.iter().chain(&passwords) {
            for form in printed_forms(secret) {
                forms += 1;
                assert!(!printed.contains(&form), "a secret is printed as {form}");
                assert!(!logged.contains(&form), "a secret is logged as {form}");
            }
        }
        println!(
            "{printed}\n{forms} forms of {} secrets are in none of {} lines ({} bytes) of log and {} printed texts",
            self.secrets.len() + passwords.len(),
            logged.lines().count(),
            logged.len(),
            self.printed.len(),
        );
    }
}

async fn use_all(seen: &mut Seen) {
    let users = SaslDigest::new([("alice", PASSWORDS[0]), ("bob", PASSWORDS[1])]).required();
    let ensemble = Ensemble::builder()
        .servers(3)
        .data(DataStore::Memory)
        // No empty parent is deleted before it is looked at.
        .container_check_interval(Duration::from_secs(3600))
        .tls(true);
    let ensemble = ensemble
        .sasl_digest(users)
        .start()
        .await
        .expect("the servers start");
    seen.add_key_of(&ensemble);

    let wrong = encrypted(&ensemble).sasl_digest("alice", PASSWORDS[2]);
    seen.printed.push(format!("{wrong:?}"));
    let refused = wrong.connect().await.expect_err("the password is wrong");
    assert!(matches!(refused, ConnectError::AuthFailed), "{refused}");
    seen.printed.push(format!("{refused:?} {refused}"));
    let alice = encrypted(&ensemble).sasl_digest("alice", PASSWORDS[0]);
    seen.printed.push(format!("{alice:?}"));
    // Not `creator_only`, which would permit all that have Alice's certificate: that is an identity of hers as well.
    let only_alice = Acl::new([AclEntry::new(Permissions::ALL, "sasl", "alice")]);
    let alice = alice.acl(only_alice.clone()).connect().await.unwrap();
    seen.printed.push(format!("{alice:?}"));
    let bob = encrypted(&ensemble).sasl_digest("bob", PASSWORDS[1]);
    let bob = bob.connect().await.unwrap();
    for session in [&alice, &bob] {
        seen.add_session(session);
    }

    for (recipe, ..) in RECIPES {
        let parent = format!("/{}", recipe.replace([' ', ','], "_"));
        alice.create(&parent, "").await.unwrap();
        let path = format!("{parent}/it");
        let held = soon(recipe, hold(recipe, &alice, &path)).await;
        let held = held.unwrap_or_else(|error| panic!("{recipe}: {error}"));
        soon("clean-up", alice.settled()).await;
        let nodes = nodes_below(&alice, &parent).await;
        for (node, (_, acl)) in &nodes {
            assert_eq!(acl, &only_alice, "{recipe} has created {node}");
        }
        let with_options = acls_with_options(recipe, &alice).await;
        let with_open_session = acls_of_open_session(recipe, &alice).await;
        for (node, is_ephemeral) in rows(&nodes, &parent) {
            let all = [&with_options, &with_open_session].map(|all| all.get(&node));
            let [Some(with_options), Some(with_open_session)] = all else {
                panic!("{recipe} creates {node} with one ACL only: {all:?}");
            };
            // It would end the cell.
            let node = node.replace('|', "\\|");
            let kind = if is_ephemeral { "ephemeral" } else { "stays" };
            writeln!(
                seen.table,
                "| `{recipe}` | `{node}` | {kind} | the session's | {with_options} | {with_open_session} |"
            )
            .unwrap();
        }
        let denied = soon(recipe, hold(recipe, &bob, &path)).await;
        let denied = denied.map(|held| held.debug).expect_err(recipe);
        println!("{recipe}: {denied}");
        assert!(denied.is_lack_of_rights(), "{recipe}: {denied}");
        seen.printed.push(format!("{denied:?}"));
        seen.printed.push(held.debug);
        let ended = soon(recipe, held.end).await;
        ended.unwrap_or_else(|error| panic!("{recipe} does not end: {error}"));
    }
    logging::provoke(&alice).await;
    bob.close().await.unwrap();
    alice.close().await.unwrap();
    ensemble.down().await.unwrap();
}

/// Returns whose ACL each node has if the session, the options of the recipe and the parent have different ones.
async fn acls_with_options(recipe: &str, alice: &Session) -> BTreeMap<String, &'static str> {
    let of_options = Acl::new([
        AclEntry::new(Permissions::ALL, "sasl", "alice"),
        AclEntry::new(Permissions::READ, "sasl", "bob"),
    ]);
    whose_acls(recipe, alice, Some(&of_options)).await
}

/// Returns whose ACL each node has if that of the session is open to all, and that of the parent is not.
async fn acls_of_open_session(recipe: &str, alice: &Session) -> BTreeMap<String, &'static str> {
    whose_acls(recipe, &alice.with_acl(Acl::open()), None).await
}

async fn whose_acls(
    recipe: &str,
    session: &Session,
    of_options: Option<&Acl>,
) -> BTreeMap<String, &'static str> {
    let of_parent = Acl::new([
        AclEntry::new(Permissions::ALL, "sasl", "alice"),
        AclEntry::new(Permissions::READ, "world", "anyone"),
    ]);
    let kind = if of_options.is_some() {
        "options"
    } else {
        "open"
    };
    let parent = format!("/{kind}-{}", recipe.replace([' ', ','], "_"));
    let create = session.create(&parent, "").acl(of_parent.clone());
    create.await.unwrap();
    let path = format!("{parent}/it");
    let held = soon(recipe, hold_with(recipe, session, &path, of_options)).await;
    let held = held.unwrap_or_else(|error| panic!("{recipe}: {error}"));
    soon("clean-up", session.settled()).await;
    let mut whose = BTreeMap::new();
    for (node, (_, acl)) in nodes_below(session, &parent).await {
        let owner = if Some(&acl) == of_options {
            "the options'"
        } else if acl == *session.default_acl() {
            if of_options.is_some() {
                "the session's"
            } else {
                "open"
            }
        } else if acl == of_parent {
            "the parent's"
        } else {
            panic!("{recipe} creates {node} with {acl:?}");
        };
        let node = general(node.strip_prefix(&parent).expect("it is below"));
        let other = whose.insert(node.clone(), owner);
        assert!(other.is_none_or(|other| other == owner), "{recipe} {node}");
    }
    let ended = soon(recipe, held.end).await;
    ended.unwrap_or_else(|error| panic!("{recipe} does not end: {error}"));
    whose
}

#[test]
fn no_recipe_prints_a_secret_with_the_other_client_either() {
    let mut seen = Seen::default();
    let logged = Log::of(|| block_on(use_all_with_the_other_client(&mut seen)));
    for target in [" zookeeper_client::", " zk_zookeeper_client::"] {
        assert!(logged.contains(target), "{target} has logged nothing");
    }
    logging::assert_each_crate_is_in(&logged);
    seen.assert_no_secret_in(&logged);
}

/// Without TLS and SASL, which sessions of that client do not have.
async fn use_all_with_the_other_client(seen: &mut Seen) {
    let ensemble = Ensemble::builder().servers(1).data(DataStore::Memory);
    let ensemble = ensemble.start().await.expect("a server starts");
    let alice =
        Connect::to(ensemble.connect_string()).auth("digest", format!("alice:{}", PASSWORDS[0]));
    seen.printed.push(format!("{alice:?}"));
    let nowhere = Connect::to("127.0.0.1:1").auth("digest", format!("alice:{}", PASSWORDS[0]));
    let nowhere = nowhere.connect_timeout(Duration::from_secs(1));
    let refused = nowhere.session().await.map(drop);
    let refused = refused.expect_err("no server is there");
    seen.printed.push(format!("{refused:?} {refused}"));
    let alice = alice.session().await.unwrap();
    let alice = alice.with_acl(Acl::creator_only());
    seen.printed.push(format!("{alice:?}"));
    seen.add_session(&alice);
    for (recipe, ..) in RECIPES {
        let parent = format!("/{}", recipe.replace([' ', ','], "_"));
        alice.create(&parent, "").await.unwrap();
        let held = soon(recipe, hold(recipe, &alice, &format!("{parent}/it"))).await;
        let held = held.unwrap_or_else(|error| panic!("{recipe}: {error}"));
        seen.printed.push(held.debug);
        let ended = soon(recipe, held.end).await;
        ended.unwrap_or_else(|error| panic!("{recipe} does not end: {error}"));
    }
    logging::provoke(&alice).await;
    alice.close().await.unwrap();
    ensemble.down().await.unwrap();
}

#[test]
fn a_panic_while_a_recipe_is_held_prints_no_secret() {
    let mut seen = Seen::default();
    let logged = Log::of(|| panic_with_each(&mut seen));
    assert!(
        logged.contains("zk-core-blocking"),
        "no thread of the facade has logged"
    );
    for (recipe, ..) in RECIPES {
        let message = format!("the holder of {recipe} panics");
        assert!(logged.contains(&message), "no panic: {message}");
    }
    seen.assert_no_secret_in(&logged);
}

/// Holds each recipe on a thread that panics: what it holds is dropped while the thread unwinds.
fn panic_with_each(seen: &mut Seen) {
    let users = SaslDigest::new([("alice", PASSWORDS[0])]);
    let ensemble = Ensemble::builder().servers(1).data(DataStore::Memory);
    let ensemble = block_on(ensemble.tls(true).sasl_digest(users).start());
    let ensemble = ensemble.expect("a server starts");
    seen.add_key_of(&ensemble);
    let builder = encrypted(&ensemble)
        .sasl_digest("alice", PASSWORDS[0])
        .digest_auth("alice", PASSWORDS[1]);
    let session = block_on(builder.clone().connect()).unwrap();
    seen.add_session(&session);
    for (recipe, ..) in RECIPES {
        let parent = format!("/{}", recipe.replace([' ', ','], "_"));
        block_on(session.create(&parent, "")).unwrap();
        let (builder, session) = (builder.clone(), session.clone());
        let holder = thread::spawn(move || {
            let path = format!("{parent}/it");
            let held = block_on(soon(recipe, hold(recipe, &session, &path)));
            let held = held.unwrap_or_else(|error| panic!("{recipe}: {error}"));
            panic!(
                "the holder of {recipe} panics: {builder:?} {session:?} {}",
                held.debug
            );
        });
        holder.join().expect_err("it panics");
    }
    block_on(soon("clean-up", session.settled()));
    // A panic of a function that a call runs, and one of the facade.
    let calling = session.clone();
    let update = thread::spawn(move || {
        let shown = calling.clone();
        let changed = move |_: &_| panic!("a function of the application panics: {shown:?}");
        block_on(calling.update("/AtomicCounter", changed)).map(drop)
    });
    drop(update.join().expect_err("it panics"));
    let calling = session.clone();
    let nested = thread::spawn(move || block_on(async { block_on(calling.sync("/")) }));
    drop(nested.join().expect_err("it panics"));

    let server = ensemble.servers()[0].client_address();
    block_on(soon("a session", session_password::check(server)));
    block_on(session.close()).unwrap();
    block_on(ensemble.down()).unwrap();
}

fn encrypted(ensemble: &Ensemble) -> SessionBuilder {
    let certificates = ensemble.certificates().expect("it has some");
    let client = certificates.client();
    let tls = Certificates::trusting(certificates.authority())
        .with_identity(client.certificate, client.key);
    Session::builder(ensemble.secure_connect_string().expect("it has some"))
        // The first handshakes of servers take seconds on a busy machine.
        .connect_timeout(SOON)
        .session_timeout(LONG)
        .operation_timeout(LONG)
        .tls(tls)
}

/// Returns for all nodes below a node whether they are ephemeral, and their ACL.
async fn nodes_below(session: &Session, root: &str) -> BTreeMap<String, (bool, Acl)> {
    let mut nodes = BTreeMap::new();
    let mut paths = vec![root.to_owned()];
    while let Some(path) = paths.pop() {
        let (names, stat) = session.list(&path).await.expect(&path);
        paths.extend(names.iter().map(|name| format!("{path}/{name}")));
        let (acl, _) = session.acl(&path).await.expect(&path);
        if path != root {
            nodes.insert(path, (stat.ephemeral_owner.is_some(), acl));
        }
    }
    nodes
}

/// Returns the nodes below `parent` with what differs from run to run replaced, each name once, and whether they are
/// ephemeral.
fn rows(nodes: &BTreeMap<String, (bool, Acl)>, parent: &str) -> BTreeMap<String, bool> {
    let node = |path: &String| general(path.strip_prefix(parent).expect("it is below"));
    let nodes = nodes.iter();
    nodes
        .map(|(path, (is_ephemeral, _))| (node(path), *is_ephemeral))
        .collect()
}

/// Replaces unique ids, sequence numbers and other long numbers in a path.
fn general(path: &str) -> String {
    const SEPARATORS: [char; 6] = ['/', '-', '_', '@', '%', '|'];
    let mut text = String::new();
    let mut rest = path;
    while let Some((before, protected)) = rest.split_once(PROTECTED) {
        text += &without_numbers(before, &SEPARATORS);
        text += PROTECTED;
        text += "…";
        rest = &protected[UUID_LENGTH..];
    }
    text + &without_numbers(rest, &SEPARATORS)
}

fn without_numbers(text: &str, separators: &[char]) -> String {
    let word = |word: &str| {
        let end = word.trim_end_matches(separators).len();
        let (word, separator) = word.split_at(end);
        let is_long = word.len() >= 4 && word.bytes().any(|byte| byte.is_ascii_digit());
        let is_number = is_long && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        format!("{}{separator}", if is_number { "…" } else { word })
    };
    text.split_inclusive(separators).map(word).collect()
}

/// What a protected node's name begins with, before a UUID.
const PROTECTED: &str = "_c_";
const UUID_LENGTH: usize = 36;

/// Checks that a table of the document has these rows below its head, or writes them if `WRITE_SECURITY` is set.
fn assert_documented(name: &str, rows: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/security.md");
    let document = std::fs::read_to_string(&file).expect("the document can be read");
    let begin = format!("<!-- {name}: begin -->\n");
    let end = format!("<!-- {name}: end -->");
    let parts = document.split_once(&begin).and_then(|(before, rest)| {
        let (table, after) = rest.split_once(&end)?;
        Some((before, table, after))
    });
    let (before, table, after) =
        parts.unwrap_or_else(|| panic!("the document has no table {name}"));
    let head: String = table.split_inclusive('\n').take(2).collect();
    if std::env::var_os("WRITE_SECURITY").is_some() {
        let written = format!("{before}{begin}{head}{rows}{end}{after}");
        std::fs::write(&file, written).expect("the document can be written");
        return;
    }
    let documented = table.strip_prefix(&head).unwrap_or_default();
    assert_eq!(
        rows, documented,
        "`WRITE_SECURITY=1 cargo xtask test all secure` writes this into the document:\n{rows}"
    );
}

/// Returns a session of a user of the scheme `digest`, and the id that stands for the user in ACLs.
async fn user(ensemble: &Ensemble, name: &str) -> (Session, String) {
    let builder = Session::builder(ensemble.connect_string()).digest_auth(name, PASSWORDS[0]);
    let session = builder
        .session_timeout(LONG)
        .operation_timeout(LONG)
        .connect()
        .await
        .unwrap();
    let path = format!("/identity-of-{name}");
    session
        .create(&path, "")
        .acl(Acl::creator_only())
        .await
        .unwrap();
    let (acl, _) = session.acl(&path).await.unwrap();
    let [identity] = acl.entries() else {
        panic!("not only the user is permitted: {acl:?}");
    };
    (session, identity.id().to_owned())
}
