//! The operations of a session, as builders that end in `.await`.

mod access;
mod create;
mod delete;
mod read;
mod read_many;
mod request_checks;
mod server_info;
mod target;
mod transaction;
mod value;
mod wait;
mod write;

pub use access::{GetAcl, SetAcl};
pub use create::{Create, IdPlace};
pub use delete::Delete;
pub use read::{Exists, ExistsWatched, Get, GetStat, GetWatched, List, ListWatched, Sync};
pub use read_many::ReadMany;
pub(crate) use request_checks::check_size;
pub use server_info::{DescendantCount, Ephemerals, GetConfig, WhoAmI};
pub use target::OperationFuture;
pub(crate) use target::Target;
pub use transaction::Transaction;
pub use value::{GetDecoded, ReadError};
pub use wait::{WaitForCreation, WaitForDeletion};
pub use write::Set;
pub(crate) use write::set;
