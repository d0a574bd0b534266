//! Counts the items that are ready, delayed and claimed.

use std::collections::BTreeSet;

use futures_util::future;
use zk_core::Error;

use super::ItemStore;
use super::listing::SEGMENTS_AT_ONCE;
use crate::deadline::Deadline;
use crate::layout::Layout;

/// How many items are in which state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ItemCounts {
    pub(crate) ready: usize,
    pub(crate) delayed: usize,
    pub(crate) claimed: usize,
}

impl ItemCounts {
    /// Counts the items of a segment; `now` is the leader's time in milliseconds.
    fn add(
        &mut self,
        layout: Layout,
        (segment, names): (u32, &[String]),
        claims: &BTreeSet<String>,
        now: u64,
    ) {
        for name in names {
            let Some(key) = layout.parse(name) else {
                continue;
            };
            let state = if !claims.is_empty() && claims.contains(&layout.claim_name(segment, name))
            {
                &mut self.claimed
            } else if key.due > now {
                &mut self.delayed
            } else {
                &mut self.ready
            };
            *state += 1;
        }
    }
}

impl ItemStore {
    /// Reads all lists and counts the items.
    pub(crate) async fn counts(&self, deadline: Deadline) -> Result<ItemCounts, Error> {
        let context = &self.context;
        let now = context.time_for_delays(deadline).await?;
        let claims = async {
            match &self.list.claims {
                Some(claims) => context.child_names(claims, deadline).await,
                None => Ok(Vec::new()),
            }
        };
        let (items, claims, segments) = future::try_join3(
            context.child_names(&context.paths.items, deadline),
            claims,
            self.offers.segments.list(deadline),
        )
        .await?;
        let claims: BTreeSet<_> = claims.into_iter().collect();
        let layout = context.options.layout;
        let mut counts = ItemCounts::default();
        counts.add(layout, (0, &items), &claims, now);
        for several in segments.chunks(SEGMENTS_AT_ONCE) {
            let reads = several.iter().map(|segment| {
                let path = context.paths.segment(*segment);
                async move { context.child_names(&path, deadline).await }
            });
            let read = future::try_join_all(reads).await?;
            for (segment, names) in several.iter().zip(&read) {
                counts.add(layout, (*segment, names), &claims, now);
            }
        }
        Ok(counts)
    }
}
