//! The operations of a session, as builders that end in `.await`.

mod access;
mod create;
mod delete;
mod read;
mod request_checks;
mod target;
mod transaction;
mod value;
mod wait;
mod write;

pub use access::GetAcl;
pub use access::SetAcl;
pub use create::Create;
pub use create::IdPlace;
pub use delete::Delete;
pub use read::Exists;
pub use read::ExistsWatched;
pub use read::Get;
pub use read::GetStat;
pub use read::GetWatched;
pub use read::List;
pub use read::ListWatched;
pub use read::Sync;
pub use target::OperationFuture;
pub(crate) use target::Target;
pub use transaction::Transaction;
pub use value::GetDecoded;
pub use value::ReadError;
pub use wait::WaitForCreation;
pub use wait::WaitForDeletion;
pub use write::Set;
