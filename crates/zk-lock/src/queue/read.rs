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
    /// Reads a contender and watches for a change of its node; `None` when it is gone.
    ///
    /// The data is read rather than the existence, because a read of a node that is gone leaves no watch behind.
    pub(super) async fn watch(&self, name: &str) -> Result<Option<(Contender, Watch)>, Error> {
        let path = self.child(name);
        let sequence = self.sequence_of(name);
        match self
            .patiently(|| self.session.get(&path).watched().into_future())
            .await
        {
            Ok((data, stat, watch)) => {
                let contender = Contender::new(name.to_owned(), sequence, data, &stat);
                Ok(Some((contender, watch)))
            }
            Err(error) if error.is_no_node() => Ok(None),
            Err(error) if error.kind() == ErrorKind::NoAuth => {
                // Whether a node exists needs no permission.
                let (stat, watch) = self
                    .patiently(|| self.session.exists(&path).watched().into_future())
                    .await?;
                Ok(stat.map(|stat| {
                    let contender = Contender::new(name.to_owned(), sequence, Vec::new(), &stat);
                    (contender, watch)
                }))
            }
            Err(error) => Err(error),
        }
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

    async fn read(&self, sequence: Sequence, name: &str) -> Result<Option<Contender>, Error> {
        let path = self.child(name);
        let read = match self.session.get(&path).await {
            Err(error) if error.kind() == ErrorKind::NoAuth => self
                .session
                .stat(&path)
                .await
                .map(|stat| (Vec::new(), stat)),
            read => read,
        };
        match read {
            Ok((data, stat)) => Ok(Some(Contender::new(name.to_owned(), sequence, data, &stat))),
            Err(error) if error.is_no_node() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn sequence_of(&self, name: &str) -> Sequence {
        let sequence = self.options.layout().sequence_of(name);
        sequence.expect("only contenders are read, and a contender has a number")
    }
}

/// How many reads are under way at a time.
const AT_ONCE: usize = 64;
