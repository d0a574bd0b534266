//! Which rights the recipes and their single calls need, and what they say without one: the tables in
//! `docs/security.md`.

use std::fmt::Write as _;
use std::time::Duration;

use zk_core::{Acl, AclEntry, Permissions, Session};
use zk_harness::{DataStore, Ensemble, superuser_digest};
use zk_leader::{ElectionOptions, LeaderLatch, StepDownPolicy};
use zk_lock::{FairLock, Inspector, Reap, Removal};

use super::calls::{self, Call, Users};
use super::failure::Failure;
use super::recipes::{RECIPES, hold};
use super::{PASSWORDS, SOON, assert_documented, nodes_below, soon, user};

#[tokio::test]
async fn each_recipe_needs_just_the_rights_of_its_table() {
    let trials = Trials::start().await;
    let mut table = String::new();
    let mut wrong = Vec::new();
    for (recipe, letters, without) in RECIPES {
        let needed = rights_of(letters);
        writeln!(table, "| `{recipe}` | {} | {without} |", names(needed)).unwrap();
        for missing in missing_rights(needed, without) {
            let (parent, acl) = trials.parent(recipe, needed, missing).await;
            trials.permit(&parent, &acl).await;
            let carol = trials.carol.with_acl(acl.clone());
            let path = format!("{parent}/it");
            let used = async { hold(recipe, &carol, &path).await?.end.await };
            let used = soon(recipe, used).await;
            wrong.extend(unexpected(recipe, &used, missing, &parent));
            for (node, (_, found)) in nodes_below(&trials.admin, &parent).await {
                assert_eq!(found, acl, "{recipe} has created {node}");
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_documented("rights", &table);
    trials.end().await;
}

#[tokio::test]
async fn each_call_needs_just_the_rights_of_its_table() {
    let trials = Trials::start().await;
    let mut table = String::new();
    let mut wrong = Vec::new();
    for call in calls::all() {
        let Call { name, without, .. } = call;
        let needed = rights_of(call.rights);
        writeln!(table, "| {name} | {} | {without} |", names(needed)).unwrap();
        for missing in missing_rights(needed, without) {
            let (parent, acl) = trials.parent(name, needed, missing).await;
            let all = trials.acl(Permissions::ALL);
            let users = Users {
                session: trials.carol.with_acl(all.clone()),
                other: trials.admin.with_acl(all),
                path: format!("{parent}/it"),
            };
            let prepared = soon(name, (call.prepare)(users)).await;
            let prepared = prepared.unwrap_or_else(|error| panic!("{name}: {error}"));
            for session in [&trials.admin, &trials.carol] {
                soon("clean-up", session.settled()).await;
            }
            trials.permit(&parent, &acl).await;
            match tokio::time::timeout(SOON, prepared).await {
                Ok(called) => wrong.extend(unexpected(name, &called, missing, &parent)),
                Err(_) => wrong.push(format!("{name} without {missing}: waited {SOON:?}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_documented("calls", &table);
    trials.end().await;
}

/// Returns what is wrong with a result without a right, or with all that are needed.
fn unexpected(
    name: &str,
    result: &Result<(), Failure>,
    missing: Permissions,
    parent: &str,
) -> Option<String> {
    println!("{name} without {missing}: {result:?}");
    let is_expected = match result {
        Ok(()) => missing == Permissions::NONE,
        Err(failure) => missing != Permissions::NONE && failure.is_lack_of(&names(missing), parent),
    };
    (!is_expected).then(|| format!("{name} without {:?}: {result:?}", names(missing)))
}

/// A server, a user who has some rights, and another one who has all.
struct Trials {
    ensemble: Ensemble,
    admin: Session,
    admin_id: String,
    carol: Session,
    carol_id: String,
}

impl Trials {
    async fn start() -> Self {
        let ensemble = Ensemble::builder()
            .servers(1)
            .data(DataStore::Memory)
            // No empty parent is deleted before it is looked at.
            .container_check_interval(Duration::from_secs(3600));
        let ensemble = ensemble.start().await.expect("a server starts");
        let (admin, admin_id) = user(&ensemble, "admin").await;
        let (carol, carol_id) = user(&ensemble, "carol").await;
        Self {
            ensemble,
            admin,
            admin_id,
            carol,
            carol_id,
        }
    }

    /// Permits the admin all, and Carol this.
    fn acl(&self, rights: Permissions) -> Acl {
        let entry = |rights, id| AclEntry::new(rights, "digest", id);
        let admin = entry(Permissions::ALL, &self.admin_id);
        Acl::new([admin, entry(rights, &self.carol_id)])
    }

    /// Creates a node for a trial, and returns it with the ACL that permits Carol all that is needed but one right.
    async fn parent(&self, name: &str, needed: Permissions, missing: Permissions) -> (String, Acl) {
        let is_special = |c: char| !c.is_ascii_alphanumeric();
        let parent = format!("/{}-{missing}", name.replace(is_special, "_"));
        let all = self.acl(Permissions::ALL);
        self.admin.create(&parent, "").acl(all).await.unwrap();
        (parent, self.acl(all_but(needed, missing)))
    }

    /// Sets the ACL of a node and of all below.
    async fn permit(&self, parent: &str, acl: &Acl) {
        let nodes = nodes_below(&self.admin, parent).await;
        let nodes = nodes.into_keys().chain([parent.to_owned()]);
        for node in nodes {
            self.admin.set_acl(&node, acl.clone()).await.expect(&node);
        }
    }

    async fn end(self) {
        self.carol.close().await.unwrap();
        self.admin.close().await.unwrap();
        self.ensemble.down().await.unwrap();
    }
}

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
    let refusals: [(&str, &str, Failure); 5] = [
        (
            "revoke",
            "write",
            inspector.revoke(holder).await.unwrap_err().into(),
        ),
        (
            "revoke as Curator",
            "write",
            inspector
                .revoke(holder)
                .as_curator()
                .await
                .unwrap_err()
                .into(),
        ),
        (
            "reap",
            "delete",
            inspector.reap(Reap::All).await.unwrap_err().into(),
        ),
        (
            "break",
            "delete",
            inspector.remove(holder).await.unwrap_err().into(),
        ),
        (
            "step down",
            "write",
            asked.request_step_down().await.unwrap_err().into(),
        ),
    ];
    for (what, right, refusal) in refusals {
        println!("{what}: {refusal}");
        let path = if right == "delete" || what.starts_with("revoke") {
            "/lock"
        } else {
            "/election"
        };
        assert!(refusal.is_lack_of(right, path), "{what}: {refusal}");
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

/// Returns none, and each of the rights without which a call fails.
fn missing_rights(needed: Permissions, without: &str) -> impl Iterator<Item = Permissions> {
    let missing = each(needed).filter(|one| !without.contains(&format!("{}: ", names(*one))));
    [Permissions::NONE].into_iter().chain(missing)
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
    let names: Vec<_> = names.map(|(.., name)| *name).collect();
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}
