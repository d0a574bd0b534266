//! Catches panics of the application's codec.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use zk_core::codec::Codec;

/// Decodes an item, or returns why it is not readable.
///
/// A panic of the codec is a reason, too: it would end every consumer that reads this item.
pub(crate) fn catch_decode_panic<T>(codec: &dyn Codec<T>, data: &[u8]) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(|| codec.decode(data))) {
        Ok(decoded) => decoded.map_err(|error| error.to_string()),
        Err(panic) => Err(format!("the codec panicked: {}", panic_message(&*panic))),
    }
}

/// Returns the message of a panic.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("it gave no message")
}
