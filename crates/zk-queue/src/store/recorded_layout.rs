//! The layout of a queue, as the data of its node names it.
//!
//! The process that creates the node writes the layout into it. Other clients and earlier builds ignore this data, and
//! write none themselves: then the names of the items show the layout, if there are any.

use futures_util::future;
use zk_core::{Error, NodePath};

use super::context::QueueContext;
use crate::deadline::Deadline;
use crate::error::LayoutError;
use crate::layout::Layout;
use crate::paths::segment_numbers;

impl QueueContext {
    /// Creates the queue's node; it is no error if it exists.
    pub(crate) async fn create_items_node(&self, deadline: Deadline) -> Result<(), Error> {
        let record = self.options.layout.record();
        self.create_shared(&self.paths.items, record, deadline)
            .await
    }

    /// Compares the layout of the queue with that of this handle, and creates the queue's node if there is neither that nor
    /// an item in segments.
    pub(crate) async fn check_layout(&self, deadline: Deadline) -> Result<(), LayoutError> {
        let (path, expected) = (&self.paths.items, self.options.layout);
        let found = loop {
            // Another process may have created the node, and our server may not show it yet.
            let (synced, got) =
                future::join(self.sync(path, deadline), self.get(path, deadline)).await;
            synced?;
            match got {
                Ok((data, stat)) if stat.num_children == 0 => break Layout::of_record(&data),
                Ok((data, _)) => match Layout::of_record(&data) {
                    None => break self.layout_of_items(path, deadline).await?,
                    recorded => break recorded,
                },
                // Servers delete the node when it is empty. There may be items in segments.
                Err(error) if error.is_no_node() => {
                    if let Some(found) = self.layout_of_segments(deadline).await? {
                        break Some(found);
                    }
                    self.create_items_node(deadline).await?;
                }
                Err(error) => return Err(error.into()),
            }
        };
        match found.filter(|found| *found != expected) {
            Some(found) => Err(LayoutError::Mismatch {
                path: path.clone(),
                found,
                expected,
            }),
            None => Ok(()),
        }
    }

    /// Returns the layout of the items in the first segment that has any, as [`layout_of_items`](Self::layout_of_items).
    async fn layout_of_segments(&self, deadline: Deadline) -> Result<Option<Layout>, Error> {
        let names = self.child_names(&self.paths.segments(), deadline).await?;
        for number in segment_numbers(&names) {
            let segment = self.paths.segment(number);
            if let Some(found) = self.layout_of_items(&segment, deadline).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Returns this handle's layout if an item below this node has it, otherwise that of another item; `None` if there
    /// are none.
    async fn layout_of_items(
        &self,
        parent: &NodePath,
        deadline: Deadline,
    ) -> Result<Option<Layout>, Error> {
        let expected = self.options.layout;
        let names = self.child_names(parent, deadline).await?;
        if names.iter().any(|name| expected.parse(name).is_some()) {
            return Ok(Some(expected));
        }
        Ok(names.iter().find_map(|name| Layout::of_name(name)))
    }
}
