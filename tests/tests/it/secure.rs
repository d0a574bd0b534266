//! Every recipe on servers that authenticate: what its nodes permit, which rights it needs, what it says to a user
//! without them, and that nothing prints credentials.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zk_core::Acl;
use zk_core::AclEntry;
use zk_core::ConnectError;
use zk_core::Permissions;
use zk_core::ProtocolClient;
use zk_core::Session;
use zk_core::SessionBuilder;
use zk_core::Tls;
use zk_harness::DataStore;
use zk_harness::Ensemble;
use zk_harness::SaslDigest;
use zk_harness::superuser_digest;
use zk_leader::ElectionOptions;
use zk_leader::LeaderLatch;
use zk_leader::StepDownPolicy;
use zk_lock::FairLock;
use zk_lock::Inspector;
use zk_lock::Reap;
use zk_lock::Removal;

use self::failure::Failure;
use self::log::Log;
use self::log::printed_forms;
use self::recipes::RECIPES;
use self::recipes::hold;

mod failure;
mod log;
mod recipes;

/// For what takes moments on an idle machine.
const SOON: Duration = Duration::from_secs(60);

/// The passwords of the users, which nothing may print.
const PASSWORDS: [&str; 3] = ["wonderland-7f3a", "builder-91cc", "guessed-2b8e"];

// covers: S1 S2 S3
#[test]
fn each_recipe_permits_its_user_alone_and_prints_no_secret() {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().expect("a runtime");
    let mut seen = Seen::default();
    let logged = Log::of(|| runtime.block_on(use_all(&mut seen)));
    for target in ["zk_core", "zk_lock", "zk_queue"] {
        assert!(logged.contains(target), "{target} is not in the log");
    }
    let printed = seen.printed.join("\n");
    println!("{printed}\n{} bytes of log", logged.len());
    let passwords = PASSWORDS.map(|password| password.as_bytes().to_vec());
    // Any part of the key, since its beginning is not secret.
    let key_parts = seen.key.chunks_exact(24).chain(seen.key.rchunks_exact(24));
    let key_parts = key_parts.map(<[u8]>::to_vec);
    for secret in key_parts.chain(passwords) {
        for form in printed_forms(&secret) {
            assert!(!printed.contains(&form), "a secret is printed as {form}");
            assert!(!logged.contains(&form), "a secret is logged as {form}");
        }
    }
    let documented = documented_table("nodes");
    assert_eq!(
        seen.table, documented,
        "write this into the document:\n{}",
        seen.table
    );
}

/// What the use of all recipes showed.
#[derive(Default)]
struct Seen {
    /// The rows of the table of nodes.
    table: String,
    /// All debug output and errors.
    printed: Vec<String>,
    /// The client's private key.
    key: Vec<u8>,
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
    let key = ensemble.certificates().expect("it has some").client().key;
    let key = std::fs::read_to_string(key).expect("the harness has written it");
    let lines = key.lines().filter(|line| !line.contains("---"));
    let key = STANDARD.decode(lines.collect::<String>());
    seen.key = key.expect("it is a PEM file");
    assert!(seen.key.len() > 100, "{} bytes", seen.key.len());

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
        for (node, is_ephemeral) in rows(&nodes, &parent) {
            let kind = if is_ephemeral { "ephemeral" } else { "stays" };
            writeln!(
                seen.table,
                "| `{recipe}` | `{node}` | {kind} | the session's |"
            )
            .unwrap();
        }
        let denied = soon(recipe, hold(recipe, &bob, &path)).await;
        let denied = denied.map(|held| held.debug).expect_err(recipe);
        println!("{recipe}: {denied}");
        assert!(denied.names_the_rights(), "{recipe}: {denied}");
        seen.printed.push(format!("{denied:?}"));
        seen.printed.push(held.debug);
        let ended = soon(recipe, held.end).await;
        ended.unwrap_or_else(|error| panic!("{recipe} does not end: {error}"));
    }
    bob.close().await.unwrap();
    alice.close().await.unwrap();
    ensemble.down().await.unwrap();
}

fn encrypted(ensemble: &Ensemble) -> SessionBuilder {
    let certificates = ensemble.certificates().expect("it has some");
    let client = certificates.client();
    let tls = Tls::trusting_file(certificates.authority())
        .with_identity_files(client.certificate, client.key);
    Session::builder(ensemble.secure_connect_string().expect("it has some"))
        .client(ProtocolClient::ZkWire)
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
    const SEPARATORS: [char; 5] = ['/', '-', '_', '@', '%'];
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

/// Returns the rows of a table of the document, without its head.
fn documented_table(name: &str) -> String {
    let document = include_str!("../../../docs/security.md");
    let begin = format!("<!-- {name}: begin -->\n");
    let end = format!("<!-- {name}: end -->");
    let table = document
        .split_once(&begin)
        .and_then(|(_, rest)| rest.split_once(&end));
    let table = table
        .unwrap_or_else(|| panic!("the document has no table {name}"))
        .0;
    let rows = table.lines().filter(|line| line.starts_with('|')).skip(2);
    rows.flat_map(|row| [row, "\n"]).collect()
}

// covers: S2
#[tokio::test]
async fn each_recipe_needs_just_the_rights_of_its_table() {
    let ensemble = Ensemble::builder()
        .servers(1)
        .data(DataStore::Memory)
        // No empty parent is deleted before it is looked at.
        .container_check_interval(Duration::from_secs(3600));
    let ensemble = ensemble.start().await.expect("a server starts");
    let (admin, admin_id) = user(&ensemble, "admin").await;
    let (carol, carol_id) = user(&ensemble, "carol").await;
    let mut table = String::new();
    for (recipe, letters, without) in RECIPES {
        let needed = rights_of(letters);
        writeln!(table, "| `{recipe}` | {} | {without} |", names(needed)).unwrap();
        let missing = each(needed).filter(|one| !without.contains(&names(*one)));
        for rights in [needed]
            .into_iter()
            .chain(missing.map(|one| all_but(needed, one)))
        {
            let acl = Acl::new([
                AclEntry::new(Permissions::ALL, "digest", &admin_id),
                AclEntry::new(rights, "digest", &carol_id),
            ]);
            let parent = format!("/{}-{rights}", recipe.replace([' ', ','], "_"));
            admin.create(&parent, "").acl(acl.clone()).await.unwrap();
            let carol = carol.with_acl(acl.clone());
            let path = format!("{parent}/it");
            let used = async { hold(recipe, &carol, &path).await?.end.await };
            match soon(recipe, used).await {
                Ok(()) => assert_eq!(rights, needed, "{recipe} needs less than {needed}"),
                Err(error) => {
                    println!("{recipe} with {rights}: {error}");
                    assert_ne!(rights, needed, "{recipe} needs more than {needed}: {error}");
                    assert!(error.names_the_rights(), "{recipe} with {rights}: {error}");
                }
            }
            for (node, (_, found)) in nodes_below(&admin, &parent).await {
                assert_eq!(found, acl, "{recipe} has created {node}");
            }
        }
    }
    let documented = documented_table("rights");
    assert_eq!(table, documented, "write this into the document:\n{table}");
    carol.close().await.unwrap();
    admin.close().await.unwrap();
    ensemble.down().await.unwrap();
}

// covers: S1
#[tokio::test]
async fn a_reader_may_not_revoke_reap_or_break() {
    let superuser = superuser_digest(PASSWORDS[1]);
    let ensemble = Ensemble::builder().servers(1).data(DataStore::Memory);
    let ensemble = ensemble
        .superuser(superuser)
        .start()
        .await
        .expect("a server starts");
    let (admin, admin_id) = user(&ensemble, "admin").await;
    let (reader, reader_id) = user(&ensemble, "reader").await;
    let acl = Acl::new([
        AclEntry::new(Permissions::ALL, "digest", &admin_id),
        AclEntry::new(Permissions::READ, "digest", &reader_id),
    ]);
    let admin = admin.with_acl(acl);
    let guard = FairLock::new(&admin, "/lock")
        .unwrap()
        .acquire()
        .await
        .unwrap();
    let election = ElectionOptions::default().with_step_down(StepDownPolicy::Application);
    let latch = LeaderLatch::with_options(&admin, "/election", &election)
        .unwrap()
        .join();
    let lease = latch.leading().await.unwrap();

    let inspector = Inspector::new(&reader, "/lock").unwrap();
    let snapshot = inspector.snapshot().await.unwrap();
    let holder = snapshot.holders().next().expect("it is held").contender();
    let asked = LeaderLatch::with_options(&reader, "/election", &election).unwrap();
    let refusals: [(&str, Failure); 5] = [
        ("revoke", inspector.revoke(holder).await.unwrap_err().into()),
        (
            "revoke as Curator",
            inspector
                .revoke(holder)
                .as_curator()
                .await
                .unwrap_err()
                .into(),
        ),
        ("reap", inspector.reap(Reap::All).await.unwrap_err().into()),
        ("break", inspector.remove(holder).await.unwrap_err().into()),
        (
            "step down",
            asked.request_step_down().await.unwrap_err().into(),
        ),
    ];
    for (what, refusal) in refusals {
        println!("{what}: {refusal}");
        assert!(refusal.names_the_rights(), "{what}: {refusal}");
    }
    assert!(guard.is_valid() && lease.is_valid(), "nothing has changed");
    let superuser = Session::builder(ensemble.connect_string());
    let superuser = superuser
        .digest_auth("super", PASSWORDS[1])
        .connect()
        .await
        .unwrap();
    let broken = Inspector::new(&superuser, "/lock")
        .unwrap()
        .remove(holder)
        .await;
    assert_eq!(
        broken.unwrap(),
        Removal::Deleted,
        "no ACL restricts the superuser"
    );
    superuser.close().await.unwrap();
    latch.leave().await;
    reader.close().await.unwrap();
    admin.close().await.unwrap();
    ensemble.down().await.unwrap();
}

/// Returns a session of a user of the scheme `digest`, and the id that stands for the user in ACLs.
async fn user(ensemble: &Ensemble, name: &str) -> (Session, String) {
    let builder = Session::builder(ensemble.connect_string()).digest_auth(name, PASSWORDS[0]);
    let session = builder
        .client(ProtocolClient::ZkWire)
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

const RIGHTS: [(Permissions, char, &str); 5] = [
    (Permissions::CREATE, 'c', "create"),
    (Permissions::DELETE, 'd', "delete"),
    (Permissions::READ, 'r', "read"),
    (Permissions::WRITE, 'w', "write"),
    (Permissions::ADMIN, 'a', "admin"),
];

fn rights_of(letters: &str) -> Permissions {
    let rights = RIGHTS
        .iter()
        .filter(|(_, letter, _)| letters.contains(*letter));
    rights.fold(Permissions::NONE, |set, (one, ..)| set | *one)
}

fn each(rights: Permissions) -> impl Iterator<Item = Permissions> {
    let all = RIGHTS.into_iter().map(|(one, ..)| one);
    all.filter(move |one| rights.contains(*one))
}

fn all_but(rights: Permissions, missing: Permissions) -> Permissions {
    let others = each(rights).filter(|one| *one != missing);
    others.fold(Permissions::NONE, |set, one| set | one)
}

fn names(rights: Permissions) -> String {
    let names = RIGHTS.iter().filter(|(one, ..)| rights.contains(*one));
    names.map(|(.., name)| *name).collect::<Vec<_>>().join(", ")
}

async fn soon<T>(what: &str, wanted: impl Future<Output = T>) -> T {
    let Ok(value) = tokio::time::timeout(SOON, wanted).await else {
        panic!("waited {SOON:?} for this: {what}");
    };
    value
}
