//! Reads several items concurrently, and selects those that one transaction can take.

use std::sync::Arc;

use futures_util::future;
use zk_core::Error;
use zk_core::Stat;

use super::Candidate;
use super::InFlightItem;
use super::ItemStore;
use super::ReadOutcome;
use crate::batch_limits::fitting_count;
use crate::batch_limits::next_read_count;
use crate::deadline::Deadline;
use crate::preconditions::Preconditions;

impl ItemStore {
    /// Reads several items, and returns those that exist, in their order.
    ///
    /// It stops when they fill a request, to which each adds its `size`, or when a read fails; the items that were read
    /// before that are returned.
    pub(crate) async fn read_all(
        &self,
        items: Vec<InFlightItem>,
        size: impl Fn(&Candidate) -> usize,
        deadline: Deadline,
    ) -> Result<Vec<Candidate>, Error> {
        let mut items = items.into_iter();
        let mut candidates: Vec<Candidate> = Vec::new();
        let (mut asked, mut bytes) = (0, 0);
        loop {
            let flight: Vec<_> = items.by_ref().take(next_read_count(asked, bytes)).collect();
            if flight.is_empty() || fitting_count(candidates.iter().map(&size)) < candidates.len() {
                return Ok(candidates);
            }
            asked += flight.len();
            let reads = flight.into_iter().map(|item| self.read(item, deadline));
            for read in future::join_all(reads).await {
                match read {
                    Ok(ReadOutcome::Item(candidate)) => {
                        bytes += candidate.item.size();
                        candidates.push(candidate);
                    }
                    Ok(ReadOutcome::Gone | ReadOutcome::Quarantined) => {}
                    Err(error) if candidates.is_empty() => return Err(error),
                    Err(error) => {
                        tracing::debug!(%error, read = candidates.len(), "a batch was read in part");
                        return Ok(candidates);
                    }
                }
            }
        }
    }

    /// Releases the candidates that do not agree with the others, and returns the preconditions of those that are left.
    pub(crate) fn retain_of_one_epoch(
        &self,
        candidates: &mut Vec<Candidate>,
    ) -> Option<Arc<Preconditions>> {
        let all = || {
            candidates
                .iter()
                .filter_map(|candidate| candidate.in_flight.preconditions.as_ref())
        };
        if all().count() < candidates.len() {
            self.invalidate_list();
        }
        // Of two that agree, the one that also names the items node.
        let complete = all().find(|preconditions| preconditions.items_node.is_some());
        let common = complete.or_else(|| all().next()).cloned()?;
        candidates.retain(|candidate| {
            let preconditions = candidate.in_flight.preconditions.as_ref();
            preconditions.is_some_and(|preconditions| preconditions.agrees_with(&common))
        });
        Some(common)
    }

    /// Returns the candidates that were not taken since they were read; one flight of requests, however many are gone.
    pub(crate) async fn retain_existing(
        &self,
        candidates: Vec<Candidate>,
        deadline: Deadline,
    ) -> Result<Vec<Candidate>, Error> {
        if candidates.len() < 2 {
            // Trying to take it costs no more than checking it.
            return Ok(candidates);
        }
        // With a sync, items that another consumer has taken are gone even if our server lags.
        let sync = self.context.session.sync(&self.context.paths.items);
        let checks = candidates.iter().map(|candidate| {
            let exists = self.context.session.exists(&candidate.path);
            exists.timeout(deadline.remaining()).into_future()
        });
        let (synced, stats) = future::join(
            sync.timeout(deadline.remaining()).into_future(),
            future::join_all(checks),
        )
        .await;
        synced?;
        let stats: Vec<_> = stats.into_iter().collect::<Result<_, _>>()?;
        let mut left = Vec::with_capacity(candidates.len());
        for (candidate, stat) in candidates.into_iter().zip(stats) {
            let is_unchanged = |stat: Stat| {
                stat.version == candidate.item.version && stat.czxid == candidate.item.czxid
            };
            if stat.is_some_and(is_unchanged) {
                left.push(candidate);
            } else {
                candidate.in_flight.complete();
            }
        }
        Ok(left)
    }
}
