//! Draws numbers that are a fixed function of what they are drawn for, so that simulations can be repeated.

use std::hash::{DefaultHasher, Hash, Hasher as _};

/// Returns an evenly distributed number, always the same one for equal keys.
pub(crate) fn draw(key: impl Hash) -> u32 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    u32::try_from(hasher.finish() >> 32).unwrap_or(0)
}

/// Returns a number from 0 to 1, always the same one for equal keys.
pub(crate) fn draw_fraction(key: impl Hash) -> f64 {
    f64::from(draw(key)) / f64::from(u32::MAX)
}
