//! One list of operations on the simulated ensemble and on a real server: the outcomes are the same.

use std::fmt::Write as _;
use std::time::Duration;

use zk_core::{
    Acl, AclEntry, CreateMode, Error, MultiResult, NodePath, Permissions, Session, Stat, Watch,
};

/// The replies, one line per operation.
struct Notes {
    lines: Vec<String>,
    /// Transactions are counted from here.
    base: i64,
    session: zk_core::SessionId,
}

impl Notes {
    fn stat(&self, stat: &Stat) -> String {
        let owner = match stat.ephemeral_owner {
            None => "no session",
            Some(owner) if owner == self.session => "me",
            Some(_) => "another",
        };
        // Nodes from before the list have different zxids on each.
        let since = |zxid: i64| (zxid - self.base).max(-1);
        format!(
            "v{} c{} a{} born {} changed {} children {} of {owner}, {} bytes, {} children, times {}",
            stat.version,
            stat.cversion,
            stat.aversion,
            since(stat.czxid),
            since(stat.mzxid),
            since(stat.pzxid),
            stat.data_length,
            stat.num_children,
            stat.mtime >= stat.ctime,
        )
    }

    fn add<T>(&mut self, what: &str, outcome: Result<T, Error>, show: impl Fn(&Self, T) -> String) {
        let outcome = match outcome {
            Ok(answer) => show(self, answer),
            Err(error) => format!("{:?} at {:?}", error.kind(), error.failed_part()),
        };
        self.lines.push(format!("{what}: {outcome}"));
    }

    fn created(&mut self, what: &str, outcome: Result<(NodePath, Stat), Error>) {
        self.add(what, outcome, |notes, (path, stat)| {
            format!("{path} {}", notes.stat(&stat))
        });
    }

    fn changed(&mut self, what: &str, outcome: Result<Stat, Error>) {
        self.add(what, outcome, |notes, stat| notes.stat(&stat));
    }

    fn done(&mut self, what: &str, outcome: Result<(), Error>) {
        self.add(what, outcome, |_, ()| "done".to_owned());
    }

    fn committed(&mut self, what: &str, outcome: Result<Vec<MultiResult>, Error>) {
        self.add(what, outcome, |notes, parts| {
            let mut line = String::new();
            for part in parts {
                let part = match part {
                    MultiResult::Checked => "checked".to_owned(),
                    MultiResult::Deleted => "deleted".to_owned(),
                    MultiResult::Set(stat) => format!("set {}", notes.stat(&stat)),
                    MultiResult::Created { path, stat } => {
                        format!("created {path} {:?}", stat.map(|stat| notes.stat(&stat)))
                    }
                };
                write!(line, "{part}; ").unwrap();
            }
            line
        });
    }

    async fn fired(&mut self, what: &str, watch: &mut Watch) {
        let event = tokio::time::timeout(Duration::from_secs(60), watch.changed())
            .await
            .unwrap_or_else(|_| panic!("waited for the watch: {what}"));
        self.lines.push(format!("{what}: {event:?}"));
    }
}

async fn carry_out(session: &Session, other: &Session) -> Vec<String> {
    let (_, stat) = session.create("/t", "base").await.unwrap();
    let mut notes = Notes {
        lines: Vec::new(),
        base: stat.czxid,
        session: session.id(),
    };
    creates(&mut notes, session, other).await;
    writes(&mut notes, session).await;
    transactions(&mut notes, session).await;
    permissions(&mut notes, session, other).await;
    watches(&mut notes, session, other).await;
    notes.lines
}

async fn creates(notes: &mut Notes, session: &Session, other: &Session) {
    notes.created("plain", session.create("/t/a", "1").await);
    notes.created("twice", session.create("/t/a", "1").await);
    notes.created("no parent", session.create("/t/none/a", "").await);
    notes.created("the root", session.create("/", "").await);
    notes.created("ephemeral", session.create("/t/e", "").ephemeral().await);
    notes.created("below it", session.create("/t/e/x", "").await);
    notes.created("sequential", session.create("/t/s-", "").sequential().await);
    let both = session.create("/t/s-", "").sequential().ephemeral().await;
    notes.created("both", both);
    notes.created("container", session.create("/t/c", "").container().await);
    let ttl = session.create("/t/ttl", "").ttl(Duration::from_secs(600));
    notes.created("ttl", ttl.await);
    notes.created("another's", other.create("/t/o", "").ephemeral().await);
    notes.created(
        "no rules",
        session.create("/t/none/x", "").acl(Acl::new([])).await,
    );
    let list = session.list("/t").await;
    notes.add("list", list, |notes, (mut names, stat)| {
        names.sort();
        format!("{names:?} {}", notes.stat(&stat))
    });
    let root = session.list("/").await;
    notes.add("list of the root", root, |_, (mut names, _)| {
        names.sort();
        format!("{names:?}")
    });
    let own = session.list("/zookeeper").await;
    notes.add("list of the server's", own, |_, (mut names, _)| {
        names.sort();
        format!("{names:?}")
    });
}

async fn writes(notes: &mut Notes, session: &Session) {
    notes.changed("set", session.set("/t/a", "22").await);
    notes.changed("set 1", session.set("/t/a", "").version(1).await);
    notes.changed("set 1 again", session.set("/t/a", "").version(1).await);
    notes.changed("set none", session.set("/t/none", "").await);
    // The harness has created and deleted a node there.
    let root = session.set("/", "r").await;
    notes.add("set the root", root, |_, stat| format!("v{}", stat.version));
    notes.changed("stat", session.stat("/t/a").await);
    notes.changed("stat none", session.stat("/t/none").await);
    let exists = session.exists("/t/e").await;
    notes.add("exists", exists, |notes, stat| {
        format!("{:?}", stat.map(|stat| notes.stat(&stat)))
    });
    let get = session.get("/t/a").await;
    notes.add("get", get, |notes, (data, stat)| {
        format!("{data:?} {}", notes.stat(&stat))
    });
    notes.done("delete 7", session.delete("/t/a").version(7).await);
    notes.done("delete full", session.delete("/t").await);
    notes.done("delete full 7", session.delete("/t").version(7).await);
    notes.done("delete none", session.delete("/t/none").await);
    notes.done("delete below none", session.delete("/t/none/x").await);
    notes.done("delete the root", session.delete("/").await);
    notes.done("delete the server's", session.delete("/zookeeper").await);
    notes.done("delete", session.delete("/t/a").version(2).await);
    notes.changed("the parent then", session.stat("/t").await);
    notes.created("born again", session.create("/t/a", "").await);
    notes.done("sync", session.sync("/t").await);
    notes.done("sync none", session.sync("/none").await);
}

async fn transactions(notes: &mut Notes, session: &Session) {
    let all = session
        .transaction()
        .check_version("/t/a", 0)
        .create("/t/m", "1")
        .create("/t/m/x", "")
        .create_as("/t/m/s-", "", CreateMode::PersistentSequential, None)
        .set("/t/m", "22")
        .set_version("/t/m", "333", 1)
        .delete("/t/m/x");
    notes.committed("all", all.commit().await);
    notes.changed("what it made", session.stat("/t/m").await);
    let none = session
        .transaction()
        .create("/t/n", "")
        .set("/t/m", "x")
        .delete("/t/m")
        .create("/t/never", "");
    notes.committed("none", none.commit().await);
    notes.changed("as before", session.stat("/t/m").await);
    let check = session.transaction().check("/t/none").commit().await;
    notes.committed("check of none", check);
    let check = session
        .transaction()
        .check_version("/t/m", 0)
        .commit()
        .await;
    notes.committed("check of another version", check);
}

async fn permissions(notes: &mut Notes, session: &Session, other: &Session) {
    let acl = Acl::new([
        AclEntry::new(Permissions::READ, "world", "anyone"),
        AclEntry::new(Permissions::ALL, "auth", ""),
    ]);
    notes.created("mine", session.create("/t/p", "").acl(acl.clone()).await);
    notes.created("below mine", session.create("/t/p/x", "").await);
    notes.created("hers", other.create("/t/p/y", "").await);
    notes.changed("her set", other.set("/t/p", "").await);
    notes.done("her delete", other.delete("/t/p/x").await);
    notes.done("her delete of none", other.delete("/t/p/none").await);
    notes.changed("her rules", other.set_acl("/t/p", Acl::open()).await);
    notes.created(
        "her auth",
        other.create("/t/h", "").acl(Acl::creator_only()).await,
    );
    let nonsense = Acl::new([AclEntry::new(Permissions::ALL, "nonsense", "x")]);
    notes.created("nonsense", session.create("/t/q", "").acl(nonsense).await);
    let acl = session.acl("/t/p").await;
    notes.add("rules", acl, |notes, (acl, stat)| {
        format!("{:?} {}", acl.entries(), notes.stat(&stat))
    });
    notes.changed("closed", session.set_acl("/t/p", Acl::creator_only()).await);
    let get = other.get("/t/p").await;
    notes.add("her get", get, |_, _| "found".to_owned());
    let list = other.list("/t/p").await;
    notes.add("her list", list, |_, _| "found".to_owned());
    notes.changed("her look", other.stat("/t/p").await);
}

async fn watches(notes: &mut Notes, session: &Session, other: &Session) {
    let (_, mut birth) = session.exists("/t/w").watched().await.unwrap();
    notes.created("w", other.create("/t/w", "").await);
    notes.fired("birth", &mut birth).await;
    let (_, _, mut data) = session.get("/t/w").watched().await.unwrap();
    let (_, mut look) = session.exists("/t/w").watched().await.unwrap();
    let (_, _, mut children) = session.list("/t/w").watched().await.unwrap();
    notes.changed("w set", other.set("/t/w", "1").await);
    notes.fired("data", &mut data).await;
    notes.fired("look", &mut look).await;
    notes.created("w/x", other.create("/t/w/x", "").await);
    notes.fired("children", &mut children).await;
    let (_, _, mut children) = session.list("/t/w").watched().await.unwrap();
    let (_, _, mut data) = session.get("/t/w/x").watched().await.unwrap();
    notes.done("w/x gone", other.delete("/t/w/x").await);
    notes.fired("child gone", &mut children).await;
    notes.fired("data gone", &mut data).await;
    let (_, _, mut children) = session.list("/t/w").watched().await.unwrap();
    notes.done("w gone", other.delete("/t/w").await);
    notes.fired("parent gone", &mut children).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_server_answers_the_same() {
    let ensemble = zk_harness::Ensemble::builder()
        .servers(1)
        .start()
        .await
        .unwrap();
    let connect = || Session::builder(ensemble.connect_string());
    let session = connect().digest_auth("ann", "pw").connect().await.unwrap();
    let other = connect().connect().await.unwrap();
    let real = carry_out(&session, &other).await;

    let sim = zk_sim::Ensemble::new(3);
    let session = sim.connect().digest("ann", "pw").await;
    let other = sim.connect().await;
    let simulated = carry_out(&session, &other).await;

    assert!(real.len() > 60, "{real:#?}");
    let differences: Vec<_> = real
        .iter()
        .zip(&simulated)
        .filter(|(real, simulated)| real != simulated)
        .collect();
    assert!(
        differences.is_empty(),
        "real and simulated: {differences:#?}"
    );
    assert_eq!(simulated.len(), real.len());
    ensemble.down().await.unwrap();
}
