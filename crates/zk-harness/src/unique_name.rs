//! Names that no other process chooses.

use std::hash::{BuildHasher as _, RandomState};

/// Returns `prefix` and 16 random hexadecimal digits.
///
/// The operating system is their source. `fastrand` seeds itself from the monotonic clock and the thread's number alone:
/// two processes that start together may get the same numbers where the clock is coarse.
pub(crate) fn unique_name(prefix: &str) -> String {
    format!("{prefix}{:016x}", RandomState::new().hash_one(prefix))
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::unique_name;

    #[test]
    fn names_differ_even_if_the_clock_and_the_thread_do_not() {
        let names = [0, 1].map(|_| {
            let process = thread::spawn(|| {
                fastrand::seed(7);
                unique_name("zk-")
            });
            process.join().unwrap()
        });
        assert_ne!(names[0], names[1]);
        for name in names {
            assert!(name.starts_with("zk-") && name.len() == 19, "{name}");
        }
    }
}
