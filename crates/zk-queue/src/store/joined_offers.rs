//! Makes several offers in one transaction.

use zk_core::Error;
use zk_core::ErrorKind;

use super::joined_calls::JoinedOutcome;
use super::joined_calls::JoinedWork;
use super::offers::NewItem;
use super::offers::Offers;
use crate::deadline::Deadline;
use crate::error::OfferError;

impl JoinedWork for Offers {
    type Call = NewItem;
    type Output = Result<(), OfferError>;

    fn size_of(&self, new_item: &NewItem) -> usize {
        Self::size_of(self, new_item)
    }

    async fn commit(
        &self,
        new_items: &[NewItem],
        deadline: Deadline,
    ) -> JoinedOutcome<Result<(), OfferError>> {
        let Err(failure) = self.offer(new_items, deadline).await else {
            return JoinedOutcome::Each(Ok(()));
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
                _ => JoinedOutcome::Each(Err(failure)),
            },
            _ => JoinedOutcome::Each(Err(failure)),
        }
    }

    fn unknown(&self, error: Error) -> Result<(), OfferError> {
        Err(OfferError::Unknown(error))
    }
}
