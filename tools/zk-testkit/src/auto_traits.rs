//! Tables of types and futures that the compiler checks.

pub use std::clone::Clone;
pub use std::error::Error;
pub use std::marker::{Send, Sync, Unpin};

/// Checks that types implement traits and borrow nothing, as far as the compiler can.
///
/// The traits are `Clone`, `Error`, `Send`, `Sync` and `Unpin` of the standard library, whatever else has these names.
///
/// # Examples
///
/// ```
/// zk_testkit::assert_impl! {
///     Send + Sync + Clone: String, Vec<u8>;
///     Error + Send + Sync: std::io::Error;
/// }
/// ```
///
/// ```compile_fail
/// zk_testkit::assert_impl! { Send: std::rc::Rc<u8> }
/// ```
#[macro_export]
macro_rules! assert_impl {
    ($($first:ident $(+ $other:ident)* : $($type:ty),+ $(,)?);+ $(;)?) => { $({
        fn is_so<T: $crate::auto_traits::$first $(+ $crate::auto_traits::$other)* + 'static>() {}
        $( is_so::<$type>(); )+
    })+ };
}

/// Checks that the futures and streams of calls are `Send`; those after `'static` also that they borrow nothing of the values.
///
/// Each future is one of values of its own, which it may take. Nothing is called.
///
/// # Examples
///
/// ```
/// zk_testkit::assert_send_futures! {
///     (seconds: u64) => async { seconds + 1 }, std::future::ready(seconds);
///     'static (text: String) => async move { text.len() };
/// }
/// ```
///
/// ```compile_fail
/// zk_testkit::assert_send_futures! {
///     (count: std::rc::Rc<u8>) => async { *count };
/// }
/// ```
///
/// ```compile_fail
/// zk_testkit::assert_send_futures! {
///     'static (text: String) => async { text.len() };
/// }
/// ```
#[macro_export]
macro_rules! assert_send_futures {
    () => {};
    (@ $check:ident ($($value:ident : $type:ty),+) $future:expr) => {
        let _ = |$(mut $value: $type),+| $crate::auto_traits::$check(&$future);
    };
    ('static $values:tt => $($future:expr),+; $($rest:tt)*) => {
        $( $crate::assert_send_futures!(@ is_send_static $values $future); )+
        $crate::assert_send_futures!($($rest)*);
    };
    ($values:tt => $($future:expr),+; $($rest:tt)*) => {
        $( $crate::assert_send_futures!(@ is_send $values $future); )+
        $crate::assert_send_futures!($($rest)*);
    };
}

pub fn is_send<T: Send>(_: &T) {}

pub fn is_send_static<T: Send + 'static>(_: &T) {}
