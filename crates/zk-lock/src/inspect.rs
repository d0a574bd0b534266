//! Looking at a lock from outside.

use std::collections::HashMap;
use std::sync::Arc;

use zk_core::Error;
use zk_core::NodePath;
use zk_core::ParsePathError;
use zk_core::Session;

use crate::conditional_delete::Removal;
use crate::conditional_delete::delete_exactly;
use crate::contender::Contender;
use crate::layout::Kind;
use crate::layout::Layout;
use crate::options::LockOptions;
use crate::queue::Queue;
use crate::revoke::Revoke;

/// A handle to look at a lock from outside, whatever kind of lock it is and whoever's: a mutex, a read/write lock, or
/// one of another client whose [`Layout`] is known.
///
/// It never takes a place in the queue. Making one costs nothing.
///
/// # Examples
///
/// ```no_run
/// # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_lock::Inspector;
///
/// let picture = Inspector::new(&session, "/locks/nightly")?.look().await?;
/// for standing in picture.standings() {
///     println!("{:?} {}", standing.role(), standing.contender());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Inspector {
    pub(crate) queue: Queue,
}

/// Who was there when a lock was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    standings: Vec<Standing>,
    others: Vec<String>,
    exists: bool,
}

/// A contender, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    contender: Contender,
    role: Role,
    shares: bool,
}

/// Whether a contender has what it wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "there is no third role")]
pub enum Role {
    /// It is first in line, or shares the lock with the first one.
    Holder,
    /// It waits for others.
    Waiter,
}

impl Inspector {
    /// Makes a handle to the lock at `path`, with the layout of Curator, which has kazoo's nodes in it, too.
    ///
    /// # Errors
    ///
    /// When `path` is none.
    pub fn new<P>(session: &Session, path: P) -> Result<Self, ParsePathError>
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        Self::with_layout(session, path, Layout::default())
    }

    /// Makes a handle to the lock at `path`, whose contenders are named in this way.
    ///
    /// # Errors
    ///
    /// When `path` is none.
    pub fn with_layout<P>(
        session: &Session,
        path: P,
        layout: Layout,
    ) -> Result<Self, ParsePathError>
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        let path = path.try_into().map_err(Into::into)?;
        let options = Arc::new(LockOptions::default().with_layout(layout));
        let queue = Queue::new(session, path, layout.mutex(), options)?;
        Ok(Self { queue })
    }

    pub(crate) fn of(queue: &Queue) -> Self {
        Self {
            queue: queue.clone(),
        }
    }

    /// Returns the path of the lock.
    pub fn path(&self) -> &NodePath {
        &self.queue.path
    }

    /// Returns the session whose ensemble keeps the lock.
    pub fn session(&self) -> &Session {
        &self.queue.session
    }

    /// Reads who holds the lock and who waits for it, first come first, and what else is there.
    ///
    /// It is a picture of the past: the server catches up, the list is read, then each node; contenders that go meanwhile
    /// are left out.
    /// A holder is one that nobody is before any more; it may not know yet, and its session may be about to expire.
    ///
    /// # Errors
    ///
    /// When the path or one of the nodes cannot be read. That there is no node at the path is no error.
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing happened.
    ///
    /// # Session loss
    ///
    /// A fatal error.
    ///
    /// # Cost
    ///
    /// Three round trips, and one for every 64 contenders.
    pub async fn look(&self) -> Result<Picture, Error> {
        let Queue { session, path, .. } = &self.queue;
        session.sync(path).await?;
        // Before the contenders, so that whoever is in both is rather too old than too young.
        let names = match session.list(path).await {
            Ok((names, _)) => Some(names),
            Err(error) if error.is_no_node() => None,
            Err(error) => return Err(error),
        };
        let contenders = if names.is_some() {
            self.queue.contenders().await?
        } else {
            Vec::new()
        };
        let exists = names.is_some();
        let layout = self.queue.layout();
        // Contenders can only go, and come at the end: the first one that was read was first by then.
        let wants = wants(&contenders, layout);
        let holders = holders(&wants);
        let standings = contenders.into_iter().enumerate();
        let standings = standings
            .map(|(at, contender)| Standing {
                shares: layout.kind_of(contender.name()) == Some(Kind::Shared),
                contender,
                role: if at < holders {
                    Role::Holder
                } else {
                    Role::Waiter
                },
            })
            .collect();
        let mut others = names.unwrap_or_default();
        others.retain(|name| layout.sequence_of(name).is_none());
        others.sort_unstable();
        Ok(Picture {
            standings,
            others,
            exists,
        })
    }

    /// Asks a contender to give up the lock, or its place in the queue.
    pub fn revoke(&self, contender: &Contender) -> Revoke {
        let path = self.path_of(contender);
        Revoke::new(self.queue.session.clone(), path, contender)
    }

    /// Deletes the node of a contender: exactly the one that was seen, and none that took its place.
    ///
    /// If it holds the lock, the lock is granted to the next one, while the holder may be in the middle of something: it
    /// is told [`Loss::NodeDeleted`](crate::Loss::NodeDeleted) within about a round trip, if it listens.
    /// Whatever it does to resources that check the [fencing token](crate::FencingToken) is refused by them.
    /// [`revoke`](Self::revoke) asks it first.
    ///
    /// # Errors
    ///
    /// When the node cannot be deleted, or nobody knows whether it was.
    ///
    /// # Cancel safety
    ///
    /// Not safe: the node may be deleted or not. No other one is.
    ///
    /// # Session loss
    ///
    /// A fatal error.
    ///
    /// # Cost
    ///
    /// Three round trips.
    pub async fn remove(&self, contender: &Contender) -> Result<Removal, Error> {
        let czxid = contender.token().as_u64().cast_signed();
        delete_exactly(&self.queue.session, &self.path_of(contender), czxid).await
    }

    pub(crate) fn path_of(&self, contender: &Contender) -> NodePath {
        let path = self.queue.path.join(contender.name());
        path.expect("the name of a child that was listed is one")
    }
}

impl Picture {
    /// Returns all contenders, first come first.
    pub fn standings(&self) -> &[Standing] {
        &self.standings
    }

    /// Returns who holds the lock: nobody, one, or several that share it.
    pub fn holders(&self) -> impl Iterator<Item = &Standing> {
        self.with(Role::Holder)
    }

    /// Returns who waits, first come first.
    pub fn waiters(&self) -> impl Iterator<Item = &Standing> {
        self.with(Role::Waiter)
    }

    /// Returns the names of the children that are no contenders of the layout, which play no part.
    pub fn others(&self) -> &[String] {
        &self.others
    }

    /// Tells whether there was a node at the path of the lock.
    pub fn exists(&self) -> bool {
        self.exists
    }

    fn with(&self, role: Role) -> impl Iterator<Item = &Standing> {
        self.standings
            .iter()
            .filter(move |standing| standing.role == role)
    }
}

impl Standing {
    /// Returns the contender.
    pub fn contender(&self) -> &Contender {
        &self.contender
    }

    /// Returns whether it holds the lock.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Tells whether it shares the lock with others that do, as a reader does.
    pub fn shares(&self) -> bool {
        self.shares
    }
}

/// How many of the contenders hold the lock: the first one, and if it shares, those behind it that share.
fn holders(kinds: &[Option<Kind>]) -> usize {
    let readers = kinds
        .iter()
        .take_while(|kind| **kind == Some(Kind::Shared))
        .count();
    readers.max(usize::from(matches!(kinds.first(), Some(Some(_)))))
}

/// What each contender wants; `None` for one whose number does not tell its place, which is granted nothing.
fn wants(contenders: &[Contender], layout: Layout) -> Vec<Option<Kind>> {
    let counted = |contender: &Contender| layout.contender(contender.name());
    let mut with_number: HashMap<_, usize> = HashMap::new();
    for contender in contenders {
        *with_number.entry(counted(contender)).or_default() += 1;
    }
    contenders
        .iter()
        .map(|contender| {
            let (sequence, kind) = counted(contender)?;
            let is_alone = with_number.get(&Some((sequence, kind))) == Some(&1);
            (is_alone && !sequence.is_near_end()).then_some(kind)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: L5
    #[test]
    fn the_first_one_holds_the_lock_and_readers_with_it() {
        let (alone, shared) = (Some(Kind::Exclusive), Some(Kind::Shared));
        for (kinds, expected) in [
            (&[][..], 0),
            (&[alone], 1),
            (&[alone, shared, shared], 1),
            (&[shared], 1),
            (&[shared, shared, alone, shared], 2),
            (&[None, alone], 0),
            (&[shared, None, shared], 1),
        ] {
            assert_eq!(holders(kinds), expected, "{kinds:?}");
        }
    }
}
