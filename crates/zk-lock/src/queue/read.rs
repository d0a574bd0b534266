//! Reading what contenders say of themselves.

use futures_util::future;
use zk_core::Error;
use zk_core::ErrorKind;
use zk_core::Sequence;
use zk_core::Watch;

use super::Queue;
use crate::contender::Contender;
use crate::order;

impl Queue {
    /// Watches for a contender to go, and reads what it says of itself; `None` when it is gone.
    pub(super) async fn watch(
        &self,
        name: &str,
    ) -> Result<Option<(Option<Contender>, Watch)>, Error> {
        match self.watch_node(name).await {
            Ok(watched) => Ok(watched.map(|(contender, watch)| (Some(contender), watch))),
            // Nor does a server say then whether it exists (ZOOKEEPER-2590). But the children may be listed, as we
            // have just done.
            Err(error) if error.kind() == ErrorKind::NoAuth => self.watch_queue(name).await,
            Err(error) => Err(error),
        }
    }

    /// The same, of a contender whose node may be read.
    ///
    /// The data is read rather than the existence, because a read of a node that is gone leaves no watch behind.
    pub(super) async fn watch_node(&self, name: &str) -> Result<Option<(Contender, Watch)>, Error> {
        let path = self.child(name);
        let read = self.patiently(|| self.session.get(&path).watched().into_future());
        match read.await {
            Ok((data, stat, watch)) => {
                let sequence = self.sequence_of(name);
                let contender = Contender::new(name.to_owned(), sequence, data, &stat);
                Ok(Some((contender, watch)))
            }
            Err(error) if error.is_no_node() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Watches the whole queue for the sake of one contender: woken by everyone who comes or goes.
    async fn watch_queue(&self, name: &str) -> Result<Option<(Option<Contender>, Watch)>, Error> {
        let listed = self.patiently(|| self.session.list(&self.path).watched().into_future());
        let (names, _, watch) = listed.await?;
        let is_there = names.iter().any(|child| child == name);
        Ok(is_there.then_some((None, watch)))
    }

    /// Tells whether nobody but the contender `own` is in the queue, with a watch for everyone who comes or goes.
    pub(crate) async fn is_alone(&self, own: &str) -> Result<(bool, Watch), Error> {
        let listed = self.patiently(|| self.session.list(&self.path).watched().into_future());
        let (names, _, watch) = listed.await?;
        Ok((order::is_alone(&names, own, self.options.layout()), watch))
    }

    /// Reads all contenders, first come first.
    pub(crate) async fn contenders(&self) -> Result<Vec<Contender>, Error> {
        let names = match self.session.list(&self.path).await {
            Ok((names, _)) => names,
            Err(error) if error.is_no_node() => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let ranked = order::ranked(names, self.options.layout());
        let mut contenders = Vec::with_capacity(ranked.len());
        for some in ranked.chunks(AT_ONCE) {
            let reads = some
                .iter()
                .map(|(sequence, name)| self.read(*sequence, name));
            for read in future::join_all(reads).await {
                contenders.extend(read?);
            }
        }
        // Those with equal numbers in the order in which they came.
        if let Some(first) = contenders.first().map(Contender::sequence) {
            contenders.sort_by_key(|contender| {
                (contender.sequence().distance_from(first), contender.token())
            });
        }
        Ok(contenders)
    }

    /// Reads the first contender, and the next one if that is gone.
    pub(crate) async fn first(&self) -> Result<Option<Contender>, Error> {
        let names = match self.session.list(&self.path).await {
            Ok((names, _)) => names,
            Err(error) if error.is_no_node() => return Ok(None),
            Err(error) => return Err(error),
        };
        let ranked = order::ranked(names, self.options.layout());
        for same_number in ranked.chunk_by(|(one, _), (other, _)| one == other) {
            let reads = same_number
                .iter()
                .map(|(sequence, name)| self.read(*sequence, name));
            let found = future::try_join_all(reads).await?;
            let first = found.into_iter().flatten().min_by_key(Contender::token);
            if first.is_some() {
                return Ok(first);
            }
        }
        Ok(None)
    }

    async fn read(&self, sequence: Sequence, name: &str) -> Result<Option<Contender>, Error> {
        let path = self.child(name);
        match self.session.get(&path).await {
            Ok((data, stat)) => Ok(Some(Contender::new(name.to_owned(), sequence, data, &stat))),
            Err(error) if error.is_no_node() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The number of a contender.
    pub(crate) fn sequence_of(&self, name: &str) -> Sequence {
        let sequence = self.options.layout().sequence_of(name);
        sequence.expect("only contenders are asked about, and a contender has a number")
    }
}

/// How many reads are under way at a time.
const AT_ONCE: usize = 64;
