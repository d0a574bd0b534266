//! The rows about operations of a session.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use zk_core::{Acl, ErrorKind, MultiResult, Session, Subscription, Update};
use zk_fault_proxy::{Clients, Close, Op};

use super::{LIMIT, Outcome, Row, Servers, refused, within};

pub(super) const ROWS: &[Row] = &[
    ("reads, writes and deletions of data", |servers| {
        Box::pin(data(servers))
    }),
    ("`sync`", |servers| Box::pin(sync(servers))),
    ("creates, with the stat of the new node", |servers| {
        Box::pin(create(servers))
    }),
    ("sequential and ephemeral nodes", |servers| {
        Box::pin(sequential(servers))
    }),
    ("transactions", |servers| Box::pin(transaction(servers))),
    ("containers", |servers| Box::pin(container(servers))),
    ("parents as containers", |servers| {
        Box::pin(container_parents(servers))
    }),
    ("nodes with a time to live", |servers| {
        Box::pin(ttl(servers))
    }),
    ("access rules and digest identities", |servers| {
        Box::pin(acl(servers))
    }),
    ("one-shot watches", |servers| Box::pin(watch(servers))),
    ("subscriptions of a node", |servers| {
        Box::pin(subscription(servers))
    }),
    ("subscriptions of a subtree", |servers| {
        Box::pin(recursive_subscription(servers))
    }),
    ("reads of several nodes", |servers| {
        Box::pin(read_many(servers))
    }),
    ("reads of several nodes in one request", |servers| {
        Box::pin(read_at_once(servers))
    }),
    ("`whoami`", |servers| Box::pin(whoami(servers))),
    ("ephemeral nodes of a session", |servers| {
        Box::pin(ephemerals(servers))
    }),
    ("number of descendants", |servers| {
        Box::pin(descendants(servers))
    }),
    ("configuration of the ensemble", |servers| {
        Box::pin(config(servers))
    }),
    ("sessions and watches across connections", |servers| {
        Box::pin(reconnect(servers))
    }),
    ("sessions that assume release 3.4", |servers| {
        Box::pin(assumed(servers))
    }),
];

async fn data(servers: &Servers) -> anyhow::Result<Outcome> {
    let session = servers.connect().await?;
    session.create("/data", "old").await?;
    let stat = session.set("/data", "new").version(0).await?;
    ensure!(session.get("/data").await? == ("new".into(), stat));
    let stale = session.set("/data", "x").version(0).await;
    let stale = stale.err().context("the version is outdated")?;
    ensure!(stale.kind() == ErrorKind::BadVersion, "{stale}");
    session.create("/data/child", "").await?;
    let (names, stat) = session.list("/data").await?;
    ensure!((names, stat.num_children) == (vec!["child".to_owned()], 1));
    let full = session.delete("/data").await.err();
    ensure!(full.is_some_and(|error| error.kind() == ErrorKind::NotEmpty));
    session.delete("/data/child").await?;
    session.delete("/data").await?;
    ensure!(session.exists("/data").await?.is_none());
    session.close().await?;
    Ok(Outcome::Works)
}

async fn sync(servers: &Servers) -> anyhow::Result<Outcome> {
    let session = servers.connect().await?;
    session.sync("/").await?;
    session.sync("/").with_quorum().await?;
    session.close().await?;
    Ok(Outcome::Works)
}

async fn create(servers: &Servers) -> anyhow::Result<Outcome> {
    let session = servers.connect().await?;
    let (path, stat) = session.create("/created", "data").await?;
    let found = session.exists(&path).await?;
    ensure!(found == Some(stat), "{found:?} is not {stat:?}");
    // The session knows by now what the servers lack.
    let losses = session.counters().connection_losses;
    for name in ["/created/a", "/created/b"] {
        let (path, stat) = session.create(name, "").await?;
        ensure!(session.exists(&path).await? == Some(stat));
    }
    ensure!(session.counters().connection_losses == losses);
    let exists = session.create("/created", "").await.err();
    ensure!(exists.is_some_and(|error| error.is_node_exists()));
    let outcome = servers.worked_by(&session, Op::Create2, "by `create` and `exists`");
    let is_plain = servers.carried_out(&session).contains(&Op::Create);
    ensure!(
        is_plain == (outcome != Outcome::Works),
        "one of the two operations"
    );
    session.close().await?;
    Ok(outcome)
}

async fn sequential(servers: &Servers) -> anyhow::Result<Outcome> {
    let session = servers.connect().await?;
    session.create("/sequential", "").await?;
    let create = session
        .create("/sequential/n-", "")
        .ephemeral()
        .sequential();
    let (first, stat) = create.protected().await?;
    ensure!(first.as_str().ends_with("0000000000"), "{first}");
    ensure!(stat.ephemeral_owner == Some(session.id()));
    let (second, _) = session.create("/sequential/n-", "").sequential().await?;
    ensure!(second.as_str() == "/sequential/n-0000000001", "{second}");
    let other = servers.connect().await?;
    session.close().await?;
    other.sync("/").await?;
    let (names, _) = other.list("/sequential").await?;
    ensure!(names == ["n-0000000001"], "{names:?}");
    other.close().await?;
    Ok(Outcome::Works)
}

async fn transaction(servers: &Servers) -> anyhow::Result<Outcome> {
    let session = servers.connect().await?;
    // The first create of a session, which it does not yet know to be refused.
    let results = session
        .transaction()
        .create("/transaction", "")
        .commit()
        .await?;
    let [MultiResult::Created { path, stat }] = &results[..] else {
        bail!("{results:?}");
    };
    let found = session.exists(path).await?;
    ensure!(stat.is_none_or(|stat| found == Some(stat)), "{found:?}");
    let has_stat = stat.is_some();
    session
        .transaction()
        .create("/transaction/a", "")
        .commit()
        .await?;
    let changes = session.transaction().check_version("/transaction", 0);
    let changes = changes.delete("/transaction/a").set("/transaction", "new");
    let results = changes.create("/transaction/b", "").commit().await?;
    ensure!(results.len() == 4);
    let refused = session.transaction().create("/transaction/c", "");
    let refused = refused.check_version("/transaction", 0).commit().await;
    let refused = refused.err().context("the version is outdated")?;
    ensure!(refused.kind() == ErrorKind::BadVersion, "{refused}");
    ensure!(refused.failed_part() == Some(1), "{refused}");
    let (names, _) = session.list("/transaction").await?;
    ensure!(names == ["b"], "{names:?}");
    session.close().await?;
    Ok(if has_stat {
        Outcome::Works
    } else {
        Outcome::Degraded("without the stats of new nodes")
    })
}

async fn container(servers: &Servers) -> anyhow::Result<Outcome> {
    let session = servers.connect().await?;
    let created = session.create("/container", "").container().await;
    if let Err(error) = created {
        ensure!(session.exists("/container").await?.is_none());
        return refused(&error);
    }
    session.create("/container/child", "").await?;
    session.delete("/container/child").await?;
    within(
        LIMIT,
        "the container is removed",
        session.wait_for_deletion("/container").into_future(),
    )
    .await??;
    session.close().await?;
    Ok(Outcome::Works)
}

async fn container_parents(servers: &Servers) -> anyhow::Result<Outcome> {
    let session = servers.connect().await?;
    let create = session.create("/parents/a/b", "").container_parents();
    create.await?;
    ensure!(session.exists("/parents/a").await?.is_some());
    let outcome = servers.worked_by(&session, Op::CreateContainer, "by persistent nodes");
    session.close().await?;
    Ok(outcome)
}

async fn ttl(servers: &Servers) -> anyhow::Result<Outcome> {
    let session = servers.connect().await?;
    let create = session.create("/ttl", "").ttl(Duration::from_millis(300));
    if let Err(error) = create.await {
        ensure!(session.exists("/ttl").await?.is_none());
        return refused(&error);
    }
    within(
        LIMIT,
        "the time has passed",
        session.wait_for_deletion("/ttl").into_future(),
    )
    .await??;
    session.close().await?;
    Ok(Outcome::Works)
}

async fn acl(servers: &Servers) -> anyhow::Result<Outcome> {
    let session = servers.connect().await?;
    session.add_digest_auth("user", "secret").await?;
    session
        .create("/acl", "secret")
        .acl(Acl::creator_only())
        .await?;
    let other = servers.connect().await?;
    other.sync("/").await?;
    let refused = other
        .get("/acl")
        .await
        .err()
        .context("it is not permitted")?;
    ensure!(refused.kind() == ErrorKind::NoAuth, "{refused}");
    other.add_digest_auth("user", "secret").await?;
    ensure!(other.get("/acl").await?.0 == "secret");
    let (acl, _) = other.acl("/acl").await?;
    ensure!(acl.entries().len() == 1 && acl.entries()[0].scheme() == "digest");
    for session in [session, other] {
        session.close().await?;
    }
    Ok(Outcome::Works)
}

async fn watch(servers: &Servers) -> anyhow::Result<Outcome> {
    let [session, other] = [servers.connect().await?, servers.connect().await?];
    let (_, mut watch) = session.exists("/watch").watched().await?;
    other.create("/watch", "").await?;
    within(LIMIT, "the creation is reported", watch.changed()).await?;
    for session in [session, other] {
        session.close().await?;
    }
    Ok(Outcome::Works)
}

/// Waits until this node is reported to have changed.
async fn reports(updates: &mut Subscription, wanted: &str) -> anyhow::Result<()> {
    loop {
        match updates.next().await {
            Some(Update::Changed { path, .. }) if path.as_str() == wanted => return Ok(()),
            Some(Update::SessionLost) | None => bail!("no change of {wanted} was reported"),
            // The consumer has to read, and nothing may be reported of what it then sees.
            Some(_) => {}
        }
    }
}

async fn subscription(servers: &Servers) -> anyhow::Result<Outcome> {
    let [session, other] = [servers.connect().await?, servers.connect().await?];
    session.create("/subscription", "").await?;
    let mut updates = session.subscribe("/subscription").await?;
    let first = within(LIMIT, "the subscription is set", updates.next()).await?;
    ensure!(first == Some(Update::Resynchronize), "{first:?}");
    for data in ["1", "2"] {
        other.sync("/").await?;
        other.set("/subscription", data).await?;
        within(
            LIMIT,
            "the change is reported",
            reports(&mut updates, "/subscription"),
        )
        .await??;
    }
    let outcome = servers.worked_by(&session, Op::AddWatch, "by one-shot watches");
    for session in [session, other] {
        session.close().await?;
    }
    Ok(outcome)
}

async fn recursive_subscription(servers: &Servers) -> anyhow::Result<Outcome> {
    let [session, other] = [servers.connect().await?, servers.connect().await?];
    session.create("/subtree/a", "").parents().await?;
    let mut updates = match session.subscribe("/subtree").recursive().await {
        Ok(updates) => updates,
        Err(error) => return refused(&error),
    };
    let first = within(LIMIT, "the subscription is set", updates.next()).await?;
    ensure!(first == Some(Update::Resynchronize), "{first:?}");
    other.sync("/").await?;
    other.create("/subtree/a/b", "").await?;
    within(
        LIMIT,
        "the creation is reported",
        reports(&mut updates, "/subtree/a/b"),
    )
    .await??;
    let outcome = servers.worked_by(&session, Op::AddWatch, "by one-shot watches");
    for session in [session, other] {
        session.close().await?;
    }
    Ok(outcome)
}

const SEVERAL: [&str; 3] = ["/several/a", "/several/b", "/several/none"];

async fn create_several(session: &Session) -> anyhow::Result<()> {
    for path in ["/several/a", "/several/b"] {
        session.create(path, path).parents().or_set().await?;
    }
    Ok(())
}

async fn read_many(servers: &Servers) -> anyhow::Result<Outcome> {
    let session = servers.connect().await?;
    create_several(&session).await?;
    let found = session.get_many(SEVERAL).await?;
    let [Ok((a, _)), Ok((b, _)), Err(none)] = &found[..] else {
        bail!("{found:?}");
    };
    ensure!(a == "/several/a" && b == "/several/b" && none.is_no_node());
    let outcome = servers.worked_by(&session, Op::MultiRead, "by a read of each");
    session.close().await?;
    Ok(outcome)
}

async fn read_at_once(servers: &Servers) -> anyhow::Result<Outcome> {
    let session = servers.connect().await?;
    create_several(&session).await?;
    match session.get_many(SEVERAL).in_one_request().await {
        Ok(found) => ensure!(found.len() == 3),
        Err(error) => return refused(&error),
    }
    session.close().await?;
    Ok(Outcome::Works)
}

async fn whoami(servers: &Servers) -> anyhow::Result<Outcome> {
    let session = servers.connect().await?;
    session.add_digest_auth("user", "secret").await?;
    let identities = match session.whoami().await {
        Ok(identities) => identities,
        Err(error) => return refused(&error),
    };
    ensure!(identities.iter().any(|identity| identity.name == "user"));
    session.close().await?;
    Ok(Outcome::Works)
}

async fn ephemerals(servers: &Servers) -> anyhow::Result<Outcome> {
    let session = servers.connect().await?;
    session.create("/own", "").ephemeral().await?;
    let found = match session.ephemerals("/").await {
        Ok(found) => found,
        Err(error) => return refused(&error),
    };
    ensure!(found.len() == 1 && found[0].as_str() == "/own", "{found:?}");
    session.close().await?;
    Ok(Outcome::Works)
}

async fn descendants(servers: &Servers) -> anyhow::Result<Outcome> {
    let session = servers.connect().await?;
    session.create("/counted/a/b", "").parents().await?;
    match session.descendant_count("/counted").await {
        Ok(count) => ensure!(count == 2, "{count}"),
        Err(error) => return refused(&error),
    }
    session.close().await?;
    Ok(Outcome::Works)
}

async fn config(servers: &Servers) -> anyhow::Result<Outcome> {
    let session = servers.connect().await?;
    let config = match session.config().await {
        Ok(config) => config,
        Err(error) => return refused(&error),
    };
    let lines = config.text().lines();
    let lines: BTreeSet<_> = lines.filter(|line| line.starts_with("server.")).collect();
    ensure!(lines.len() == 3, "{}", config.text());
    session.close().await?;
    Ok(Outcome::Works)
}

async fn reconnect(servers: &Servers) -> anyhow::Result<Outcome> {
    let [session, other] = [servers.connect().await?, servers.connect().await?];
    session.create("/kept", "").ephemeral().await?;
    let (_, _, mut watch) = session.get("/kept").watched().await?;
    let losses = session.counters().connection_losses;
    let one = Clients::Session(session.id().as_i64());
    ensure!(servers.proxy.cut(one, Close::Rst).await == 1);
    session.sync("/kept").await?;
    ensure!(session.counters().connection_losses > losses);
    other.sync("/").await?;
    let owner = other.stat("/kept").await?.ephemeral_owner;
    ensure!(owner == Some(session.id()), "it is of the same session");
    other.set("/kept", "new").await?;
    within(LIMIT, "the change is reported", watch.changed()).await?;
    for session in [session, other] {
        session.close().await?;
    }
    Ok(Outcome::Works)
}

async fn assumed(servers: &Servers) -> anyhow::Result<Outcome> {
    let other = servers.connect().await?;
    other.create("/assumed", "").await?;
    let session = Session::builder(servers.ensemble.connect_string());
    let session = session.assume_release(3, 4);
    let session = session.connect().await?;
    session.sync("/").await?;
    // A node that is not unique is not found again: each stat must be that of the right transaction.
    let creating = async {
        for _ in 0..50 {
            let create = session.create("/assumed/n-", "data").sequential();
            let (path, stat) = create.await?;
            let found = session.exists(&path).await?;
            ensure!(found == Some(stat), "{found:?} is not {stat:?}");
        }
        anyhow::Ok(())
    };
    let writing = async {
        for number in 0..150 {
            other.set("/assumed", format!("{number}")).await?;
        }
        anyhow::Ok(())
    };
    let (created, written) = tokio::join!(creating, writing);
    created?;
    written?;
    let error = session
        .whoami()
        .await
        .err()
        .context("3.4 does not know it")?;
    ensure!(error.kind() == ErrorKind::Unsupported, "{error}");
    ensure!(session.counters().connection_losses == 0);
    let ops = servers.carried_out(&session);
    ensure!(ops.contains(&Op::Create) && !ops.contains(&Op::Create2));
    for session in [session, other] {
        session.close().await?;
    }
    Ok(Outcome::Works)
}
