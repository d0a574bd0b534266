//! Looking at a node, or at all below it, again whenever something happened there.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use zk_core::Error;
use zk_core::ErrorClass;
use zk_core::NodePath;
use zk_core::Session;
use zk_core::Stat;
use zk_core::Subscription;
use zk_core::Update;

use crate::history;
use crate::plan::Found;

/// What a look shows.
#[derive(Debug)]
pub(crate) enum Sight<S> {
    Seen(S),
    /// The link broke; what was seen last may be old.
    Stale,
    /// It changes faster than it can be read: what was seen last is old. It is read again at once.
    Moving,
    /// It cannot be read as things are; it is tried again from time to time.
    Failed(Error),
    /// The session is over; the last sight.
    SessionLost,
}

/// What is looked at.
pub(crate) trait Scope: Send {
    type Snapshot: Send;

    fn path(&self) -> &NodePath;

    /// Whether what is below counts, too.
    fn is_recursive(&self) -> bool;

    /// Takes a look; `None` when what is there changes faster than it can be read.
    fn look(
        &self,
        session: &Session,
    ) -> impl Future<Output = Result<Option<Self::Snapshot>, Error>> + Send;
}

/// Looks at something through one session, as long as it lives.
#[derive(Debug)]
pub(crate) struct Eye<S> {
    session: Session,
    scope: S,
    subscription: Option<Subscription>,
    /// Whether something may have happened since the last look.
    is_due: bool,
    /// Whether the server has caught up with the others once.
    is_fresh: bool,
    /// What has to be told before the next look.
    pause: Option<Duration>,
}

impl<S: Scope> Eye<S> {
    pub(crate) fn new(session: &Session, scope: S) -> Self {
        Self {
            session: session.clone(),
            scope,
            subscription: None,
            is_due: false,
            is_fresh: false,
            pause: None,
        }
    }

    /// Lets the server catch up and looks again, since what was seen last is in doubt.
    pub(crate) fn doubt(&mut self) {
        self.is_fresh = false;
        self.is_due = true;
    }

    /// Waits until there is something new to be seen.
    ///
    /// Dropped and called again it goes on where it was; several changes at once are one sight.
    pub(crate) async fn next(&mut self) -> Sight<S::Snapshot> {
        loop {
            if let Some(pause) = self.pause {
                if tokio::time::timeout(pause, self.session.lost())
                    .await
                    .is_ok()
                {
                    return Sight::SessionLost;
                }
                self.pause = None;
            }
            if let Some(sight) = self.advance().await {
                return sight;
            }
        }
    }

    /// Takes the next step; what it shows, if anything.
    async fn advance(&mut self) -> Option<Sight<S::Snapshot>> {
        let Some(subscription) = &mut self.subscription else {
            let mut subscribe = self.session.subscribe(self.scope.path());
            if self.scope.is_recursive() {
                subscribe = subscribe.recursive();
            }
            match subscribe.await {
                Ok(subscription) => self.subscription = Some(subscription),
                Err(error) => return self.failed(error),
            }
            return None;
        };
        if !self.is_due {
            match subscription.next().await {
                Some(Update::Stale) => return Some(Sight::Stale),
                Some(Update::SessionLost) | None => return Some(Sight::SessionLost),
                // One read shows what several changes have made of it.
                Some(_) => self.is_due = true,
            }
        }
        while let Some(update) = subscription.next().now_or_never() {
            match update {
                Some(Update::Stale) => return Some(Sight::Stale),
                Some(Update::SessionLost) | None => return Some(Sight::SessionLost),
                Some(_) => {}
            }
        }
        // What happens from here on may be in the look or not.
        let mut is_due = false;
        let (session, scope, is_fresh) = (&self.session, &self.scope, self.is_fresh);
        let looking = async {
            if !is_fresh {
                session.sync(scope.path()).await?;
            }
            scope.look(session).await
        };
        let looked = tokio::select! {
            biased;
            looked = looking => looked,
            () = stale(subscription, &mut is_due) => return Some(Sight::Stale),
        };
        self.is_fresh |= looked.is_ok();
        match looked {
            Ok(Some(snapshot)) => {
                self.is_due = is_due;
                Some(Sight::Seen(snapshot))
            }
            Ok(None) => {
                self.pause = Some(SOON);
                Some(Sight::Moving)
            }
            Err(error) => self.failed(error),
        }
    }

    fn failed(&mut self, error: Error) -> Option<Sight<S::Snapshot>> {
        match error.class() {
            ErrorClass::Fatal => Some(Sight::SessionLost),
            ErrorClass::Recoverable => {
                tracing::debug!(path = %self.scope.path(), %error, "a look is taken again");
                self.pause = Some(SOON);
                None
            }
            ErrorClass::Outcome => {
                // Nobody tells when a permission is given.
                self.pause = Some(LATER);
                Some(Sight::Failed(error))
            }
        }
    }
}

/// One node.
#[derive(Debug)]
pub(crate) struct Node(pub(crate) NodePath);

impl Scope for Node {
    type Snapshot = Option<Found>;

    fn path(&self) -> &NodePath {
        &self.0
    }

    fn is_recursive(&self) -> bool {
        false
    }

    async fn look(&self, session: &Session) -> Result<Option<Self::Snapshot>, Error> {
        match session.get(&self.0).await {
            Ok((data, stat)) => Ok(Some(Some(Found { data, stat }))),
            Err(error) if error.is_no_node() => Ok(Some(None)),
            Err(error) => Err(error),
        }
    }
}

/// A node and all below it, histories left out.
#[derive(Debug)]
pub(crate) struct Below(pub(crate) NodePath);

impl Scope for Below {
    type Snapshot = BTreeMap<NodePath, Found>;

    fn path(&self) -> &NodePath {
        &self.0
    }

    fn is_recursive(&self) -> bool {
        true
    }

    /// Reads everything and then checks whether anything has changed since its own read.
    ///
    /// If nothing has, then at the moment between the two all nodes were as they were read, together: what a transaction
    /// makes of several nodes is seen whole or not at all.
    /// What has changed is read again, and all is checked again, a few times: `None` if it changes faster than that.
    async fn look(&self, session: &Session) -> Result<Option<Self::Snapshot>, Error> {
        let mut all = BTreeMap::new();
        let mut due = BTreeSet::from([self.0.clone()]);
        for _ in 0..CHECKS {
            let mut changed = BTreeSet::new();
            while !due.is_empty() {
                let reads = join_all(due.iter().map(|path| read(session, path))).await;
                let mut below = BTreeSet::new();
                for (path, read) in due.into_iter().zip(reads) {
                    let Some((found, (names, listed))) = read? else {
                        if path == self.0 {
                            return Ok(Some(BTreeMap::new()));
                        }
                        // That changes its parent, and those that were below it are found to be gone, too.
                        all.remove(&path);
                        continue;
                    };
                    if identity(&found.stat) != identity(&listed) {
                        changed.insert(path.clone());
                    }
                    let children = names.iter().filter_map(|name| path.join(name).ok());
                    below.extend(
                        children.filter(|child| {
                            !history::is_history(child) && !all.contains_key(child)
                        }),
                    );
                    all.insert(path, found);
                }
                due = below;
            }
            let again = all.keys().map(|path| session.exists(path).into_future());
            for ((path, found), again) in all.iter().zip(join_all(again).await) {
                if again?.as_ref().map(identity) != Some(identity(&found.stat)) {
                    changed.insert(path.clone());
                }
            }
            if changed.is_empty() {
                return Ok(Some(all));
            }
            due = changed;
        }
        Ok(None)
    }
}

/// Reads a node and the names of its children; `None` when it is not there.
async fn read(
    session: &Session,
    path: &NodePath,
) -> Result<Option<(Found, (Vec<String>, Stat))>, Error> {
    let (data, children) = tokio::join!(
        biased;
        session.get(path).into_future(),
        session.list(path).into_future()
    );
    match data.and_then(|(data, stat)| Ok((Found { data, stat }, children?))) {
        Ok(read) => Ok(Some(read)),
        Err(error) if error.is_no_node() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Waits until what is told is that the link broke, and notes whether it is something else meanwhile.
async fn stale(subscription: &mut Subscription, is_anything_else: &mut bool) {
    loop {
        match subscription.next().await {
            Some(Update::Stale) => return,
            Some(_) => *is_anything_else = true,
            // The look fails as well.
            None => std::future::pending().await,
        }
    }
}

/// What tells that a node is the same, with the same data and the same children.
fn identity(stat: &Stat) -> (i64, i64, i64) {
    (stat.czxid, stat.mzxid, stat.pzxid)
}

/// How often all is checked in one look: each time what has changed is read again, so that a write now and then is made up
/// for, and what is written all the time is said to be.
const CHECKS: u32 = 5;
/// Between two looks, when the first one failed for a reason that passes or saw nodes that moved.
const SOON: Duration = Duration::from_millis(50);
/// Between two looks, when the first one was refused.
const LATER: Duration = Duration::from_secs(10);
