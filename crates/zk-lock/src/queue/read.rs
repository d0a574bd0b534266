//! Lists the queue and reads its contenders.

use futures_util::future;
use zk_core::{Error, Sequence, Stat, Watch};

use super::{Enlisted, Queue};
use crate::contender::Contender;
use crate::order;

impl Queue {
    /// Lists the children, without a time limit.
    pub(crate) async fn list(&self) -> Result<Vec<String>, Error> {
        let listed = self
            .retry_read(|| self.session.list(&self.path).into_future())
            .await;
        match listed {
            Ok((names, _)) => Ok(self.without_ignored(names)),
            // Our node is gone as well then, and so are all others.
            Err(error) if error.is_no_node() => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Lists the queue again for a contender that joined it a while ago.
    pub(crate) async fn relist(&self, enlisted: &mut Enlisted) -> Result<(), Error> {
        enlisted.children = self.list().await?;
        Ok(())
    }

    /// Returns whether `own` is the only contender, and a watch that fires when contenders join or leave.
    pub(crate) async fn is_alone(&self, own: &str) -> Result<(bool, Watch), Error> {
        let listed = self.retry_read(|| self.session.list(&self.path).watched().into_future());
        let (names, _, watch) = listed.await?;
        Ok((order::is_alone(&names, own, self.layout()), watch))
    }

    /// Reads all contenders, in order of arrival.
    pub(crate) async fn contenders(&self) -> Result<Vec<Contender>, Error> {
        let ranked = self.ranked().await?;
        let mut contenders = Vec::with_capacity(ranked.len());
        for batch in ranked.chunks(MAX_CONCURRENT_READS) {
            let reads = batch.iter().map(|(_, name)| self.read(name));
            for read in future::join_all(reads).await {
                contenders.extend(read?);
            }
        }
        // Equal numbers in order of creation.
        if let Some(first) = contenders.first().map(Contender::sequence) {
            contenders.sort_by_key(|contender| {
                (
                    contender.sequence().distance_from(first),
                    contender.fencing_token(),
                )
            });
        }
        Ok(contenders)
    }

    /// Reads the first contender that still exists.
    pub(crate) async fn first(&self) -> Result<Option<Contender>, Error> {
        let ranked = self.ranked().await?;
        for same_number in ranked.chunk_by(|(one, _), (other, _)| one == other) {
            let reads = same_number.iter().map(|(_, name)| self.read(name));
            let found = future::try_join_all(reads).await?;
            let first = found
                .into_iter()
                .flatten()
                .min_by_key(Contender::fencing_token);
            if first.is_some() {
                return Ok(first);
            }
        }
        Ok(None)
    }

    /// Lists the contenders, in order of arrival.
    async fn ranked(&self) -> Result<Vec<(Sequence, String)>, Error> {
        match self.session.list(&self.path).await {
            Ok((names, _)) => Ok(order::ranked(names, self.layout())),
            Err(error) if error.is_no_node() => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Reads a contender; `None` if it is gone.
    async fn read(&self, name: &str) -> Result<Option<Contender>, Error> {
        match self.session.get(self.child_path(name)).await {
            Ok((data, stat)) => Ok(Some(self.contender(name, data.into(), &stat))),
            Err(error) if error.is_no_node() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Decodes a contender.
    pub(super) fn contender(&self, name: &str, data: Vec<u8>, stat: &Stat) -> Contender {
        let contender = Contender::decode(self.layout(), name, data, stat);
        contender.expect("only names of contenders are passed here")
    }
}

/// How many reads are in flight at a time.
const MAX_CONCURRENT_READS: usize = 64;
