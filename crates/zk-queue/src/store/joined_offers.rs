//! Makes several offers in one transaction.

use zk_core::{Error, ErrorKind};

use super::joined_calls::{JoinedOutcome, JoinedWork};
use super::offers::{NewItem, Offers};
use crate::deadline::Deadline;
use crate::error::OfferError;
use crate::item_id::ItemId;

impl JoinedWork for Offers {
    type Call = NewItem;
    type Output = Result<Option<ItemId>, OfferError>;

    fn size_of(&self, new_item: &NewItem) -> usize {
        Self::size_of(self, new_item)
    }

    async fn commit(
        &self,
        new_items: &[NewItem],
        deadline: Deadline,
    ) -> JoinedOutcome<Result<Option<ItemId>, OfferError>> {
        let failure = match self.offer(new_items, deadline).await {
            Ok(ids) => return JoinedOutcome::Outputs(ids.into_iter().map(Ok).collect()),
            Err(failure) => failure,
        };
        match &failure {
            OfferError::Core(error) if error.kind() == ErrorKind::TooLarge => {
                JoinedOutcome::TooLarge(Err(failure))
            }
            // Part 0 checks that the segment is still the active one.
            OfferError::Core(error) => match error.failed_part() {
                Some(part) if (1..=new_items.len()).contains(&part) => {
                    JoinedOutcome::Refused(part - 1, Err(failure))
                }
                _ => JoinedOutcome::SameOutput(Err(failure)),
            },
            _ => JoinedOutcome::SameOutput(Err(failure)),
        }
    }

    fn unknown(&self, error: Error) -> Result<Option<ItemId>, OfferError> {
        Err(OfferError::Unknown(error))
    }
}
