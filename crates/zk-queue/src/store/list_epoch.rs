//! What a list was read on, so that items are taken only from the queue that they were read in.

use std::sync::Arc;

use futures_util::future;
use zk_core::Changed;
use zk_core::Error;
use zk_core::ErrorClass;
use zk_core::ErrorKind;
use zk_core::NodePath;
use zk_core::OwnedNode;
use zk_core::Transaction;

use super::Line;
use super::segments::Tail;
use crate::deadline::Deadline;
use crate::idempotency::Answer;
use crate::idempotency::lock;
use crate::preconditions::Floor;
use crate::preconditions::Ground;

/// The grounds of the items of a list.
#[derive(Debug, Clone)]
pub(super) struct Footing {
    /// Of those in the queue's own node, if it is there and marked.
    first: Option<Arc<Ground>>,
    /// Of those in segments.
    others: Arc<Ground>,
    tail: Tail,
    /// The queue's own node, if it has items and is not marked.
    unmarked: Option<Floor>,
}

impl Footing {
    pub(super) fn new(
        anchor: Arc<OwnedNode>,
        desk: NodePath,
        tail: Tail,
        floor: Option<Floor>,
        has_items: bool,
    ) -> Self {
        let others = Ground {
            anchor,
            desk: (desk, tail.version),
            items: None,
        };
        let (marked, unmarked) = match floor {
            Some(floor) if floor.version == 0 => (None, Some(floor).filter(|_| has_items)),
            marked => (marked, None),
        };
        let mut footing = Self {
            first: None,
            others: Arc::new(others),
            tail,
            unmarked,
        };
        if let Some(marked) = marked {
            footing.stand_on(marked);
        }
        footing
    }

    /// Takes a node that may not be written as it is, if it is this one.
    pub(super) fn without_mark(mut self, made_by: Option<i64>) -> Self {
        if let Some(floor) = self.unmarked.take_if(|floor| Some(floor.czxid) == made_by) {
            self.stand_on(floor);
        }
        self
    }

    fn stand_on(&mut self, floor: Floor) {
        self.first = Some(Arc::new(Ground {
            items: Some(floor),
            ..Ground::clone(&self.others)
        }));
    }

    /// Stands on another ground of the same node of the items, and of segments of which nothing is known any more.
    fn move_to(&mut self, first: &Arc<Ground>) {
        self.others = Arc::new(Ground {
            items: None,
            ..Ground::clone(first)
        });
        self.tail.version = first.desk.1;
        self.first = Some(Arc::clone(first));
    }

    fn is_first(&self, ground: &Arc<Ground>) -> bool {
        let first = self.first.as_ref();
        first.is_some_and(|first| Arc::ptr_eq(first, ground))
    }

    /// The ground of the items of a segment.
    pub(super) fn of(&self, segment: u32) -> Option<Arc<Ground>> {
        match segment {
            0 => self.first.clone(),
            _ => Some(Arc::clone(&self.others)),
        }
    }

    /// Whether items can be taken.
    pub(super) fn is_firm(&self) -> bool {
        self.unmarked.is_none()
    }

    pub(super) fn agrees_with(&self, other: &Self) -> bool {
        let are_first_same = match (&self.first, &other.first) {
            (Some(ours), Some(theirs)) => ours.agrees_with(theirs),
            (None, None) => true,
            _ => false,
        };
        are_first_same
            && self.others.agrees_with(&other.others)
            && self.tail == other.tail
            && self.unmarked == other.unmarked
    }
}

impl Line {
    /// Sees to what is missing before items can be taken; answers whether the list that is there will do now.
    pub(super) async fn find_footing(&self, deadline: Deadline) -> Result<bool, Error> {
        if self.receipts.anchored().is_none() {
            self.receipts.anchor(deadline).await?;
            return Ok(false);
        }
        let footing = lock(&self.stock).footing.clone();
        match footing {
            Some(footing) if !footing.is_firm() => self.mark(footing, deadline).await,
            _ => Ok(false),
        }
    }

    /// Sets the node of the items apart from all that were there before and will be: its data stays, its version is no
    /// longer that of a node which was just made, and the desk's is another one for good.
    ///
    /// The caller holds the right to read the lists.
    async fn mark(&self, mut footing: Footing, deadline: Deadline) -> Result<bool, Error> {
        let Some(floor) = footing.unmarked.take() else {
            return Ok(true);
        };
        let tail = footing.tail;
        let get = self.session.get(&floor.path).timeout(deadline.remaining());
        let data = match get.await {
            Ok((data, stat)) if stat.version == floor.version && stat.czxid == floor.czxid => data,
            // Somebody else has marked it, or it is gone.
            Ok(_) => return Ok(false),
            Err(error) if error.is_no_node() => return Ok(false),
            Err(error) => return Err(error),
        };
        let mark = |transaction: Transaction| {
            transaction
                .set_version(&self.place.desk, tail.data(), tail.version)
                .set_version(&floor.path, data.clone(), floor.version)
        };
        let marked = self
            .receipts
            .confirm_on(&footing.others, deadline, mark)
            .await;
        let marked = match marked {
            Ok(marked) => marked,
            Err(failure) if failure.is_in_doubt => return Err(failure.error),
            Err(failure) => return self.go_unmarked(footing, floor, failure.error),
        };
        match marked {
            Some(Answer::Done(Some(changed))) => {
                let [Changed::Set(desk), Changed::Set(items)] = changed.as_slice() else {
                    return Ok(false);
                };
                if items.czxid != floor.czxid {
                    // It was made anew after it had been read, and the list is one of the node before.
                    return Ok(false);
                }
                let tail = Tail {
                    version: desk.version,
                    ..tail
                };
                let marked = Floor {
                    version: items.version,
                    czxid: items.czxid,
                    ..floor
                };
                let others = &footing.others;
                let (anchor, desk) = (Arc::clone(&others.anchor), others.desk.0.clone());
                let footing = Footing::new(anchor, desk, tail, Some(marked), true);
                tracing::debug!(path = %self.place.items, "a new node of a queue was marked");
                self.replace_tail(footing.tail);
                lock(&self.stock).footing = Some(footing);
                Ok(true)
            }
            // What the answer would have told is read.
            Some(Answer::Done(None)) | None => Ok(false),
            Some(Answer::Refused { error, .. }) => match error.kind() {
                ErrorKind::NoNode | ErrorKind::BadVersion => Ok(false),
                _ => self.go_unmarked(footing, floor, error),
            },
        }
    }

    /// Takes the node of the items as it is if it was refused to write it: that must not keep anybody from its items.
    fn go_unmarked(&self, mut footing: Footing, floor: Floor, error: Error) -> Result<bool, Error> {
        if error.class() != ErrorClass::Outcome {
            return Err(error);
        }
        tracing::warn!(path = %floor.path, %error, "the node of a queue cannot be told from a later one");
        let mut stock = lock(&self.stock);
        stock.unmarked = Some(floor.czxid);
        footing.stand_on(floor);
        stock.footing = Some(footing);
        Ok(true)
    }

    /// The ground as it is now, if the queue's own node is still the one that it was; of other segments nobody can tell.
    pub(super) async fn new_ground(
        &self,
        ground: &Ground,
        deadline: Deadline,
    ) -> Result<Option<Ground>, Error> {
        if ground.items.is_none() {
            return Ok(None);
        }
        let new = self.read_ground(true, deadline).await?;
        let made_by = |ground: &Ground| ground.items.as_ref().map(|floor| floor.czxid);
        Ok(new.filter(|new| made_by(new) == made_by(ground)))
    }

    /// The ground as it is now, if a certain item is still there.
    ///
    /// What an item of a segment was claimed on may have named the queue's own node, for the sake of others that were
    /// claimed with it. That node is a container, which goes when they are done.
    pub(crate) async fn ground_of(
        &self,
        item: &NodePath,
        made_by: i64,
        deadline: Deadline,
    ) -> Result<Option<Arc<Ground>>, Error> {
        let is_in_own_node = item.parent().as_ref() == Some(&self.place.items);
        let new = self.read_ground(is_in_own_node, deadline).await?;
        let stat = self.session.exists(item).timeout(deadline.remaining());
        let is_there = stat.await?.is_some_and(|stat| stat.czxid == made_by);
        Ok(new.filter(|_| is_there).map(Arc::new))
    }

    async fn read_ground(
        &self,
        has_floor: bool,
        deadline: Deadline,
    ) -> Result<Option<Ground>, Error> {
        let anchor = self.receipts.anchor(deadline).await?;
        let (desk, items) = (&self.place.desk, &self.place.items);
        let sync = self.session.sync(desk).timeout(deadline.remaining());
        let look = |path| {
            let look = self.session.exists(path);
            look.timeout(deadline.remaining()).into_future()
        };
        let ((), of_desk, of_items) =
            future::try_join3(sync.into_future(), look(desk), look(items)).await?;
        let floor = of_items.map(|stat| Floor {
            path: items.clone(),
            version: stat.version,
            czxid: stat.czxid,
        });
        Ok(of_desk
            .filter(|_| floor.is_some() || !has_floor)
            .map(|stat| Ground {
                anchor,
                desk: (desk.clone(), stat.version),
                items: floor.filter(|_| has_floor),
            }))
    }

    /// What items of the queue's own node can be taken on now that their ground has moved, if it is still the same node;
    /// the lists are read again if not.
    ///
    /// Offers may go to another segment since, which moves the ground of all items and changes none of these.
    pub(crate) async fn regain(
        &self,
        ground: &Arc<Ground>,
        deadline: Deadline,
    ) -> Result<Option<Arc<Ground>>, Error> {
        let Some(new) = self.new_ground(ground, deadline).await? else {
            self.lost_ground(ground);
            return Ok(None);
        };
        let new = Arc::new(new);
        let mut stock = lock(&self.stock);
        let stock = &mut *stock;
        // The nodes of segments may be others since. And what is in them may come before what is here.
        let is_alone = stock.shelf.is_all_of(0) && !self.options.layout.has_priorities();
        match &mut stock.footing {
            Some(footing) if footing.is_first(ground) && is_alone => {
                footing.move_to(&new);
                for ahead in stock.ahead.values_mut().flatten() {
                    if Arc::ptr_eq(&ahead.ground, ground) {
                        ahead.ground = Arc::clone(&new);
                    }
                }
                stock.is_whole = false;
            }
            Some(footing) if footing.is_first(ground) => stock.forget(),
            _ => {}
        }
        Ok(Some(new))
    }

    /// Has the lists read again before anything else is taken, because the ground has moved.
    pub(crate) fn lost_ground(&self, ground: &Arc<Ground>) {
        let mut stock = lock(&self.stock);
        let footing = stock.footing.as_ref();
        let is_same = footing.is_some_and(|footing| {
            Arc::ptr_eq(&footing.others, ground) || footing.is_first(ground)
        });
        if is_same {
            stock.forget();
        }
    }

    /// Has the lists read again: an item came back to a list that knows nothing of its node.
    pub(crate) fn forget_list(&self) {
        lock(&self.stock).forget();
    }
}
