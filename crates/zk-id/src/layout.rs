//! Defines the bit layout of ids.

use std::fmt;
use std::time::Duration;
use std::time::SystemTime;

use crate::id::Id;

/// The bit layout of an id: from the top, milliseconds since an epoch, worker number, and sequence number within the
/// millisecond.
///
/// An invalid layout in a constant is a compile error:
///
/// ```
/// use std::time::Duration;
/// use zk_id::Layout;
///
/// /// For 64 workers until 2097, since 2028.
/// const OURS: Layout = Layout::new(41, 6, 16, Duration::from_secs(1_830_297_600));
/// assert_eq!(OURS.ids_per_millisecond(), 65_536);
/// ```
///
/// ```compile_fail
/// # use zk_id::Layout;
/// const TOO_LONG: Layout = Layout::new(41, 11, 12, std::time::Duration::ZERO);
/// # TOO_LONG.workers();
/// ```
///
/// The sequence bits limit the rate of one worker: 12 bits allow 4,096 ids in a millisecond, one in 244 ns, however
/// little an id costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Layout {
    time: u32,
    worker: u32,
    sequence: u32,
    /// Milliseconds since the Unix epoch.
    epoch: u64,
}

/// The parts of an id, decoded with the [`Layout`] of its generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Parts {
    /// The millisecond at which the id was issued, by the clock of its generator.
    pub time: SystemTime,
    /// The worker number.
    pub worker: u32,
    /// The sequence number within the millisecond.
    pub sequence: u32,
}

impl Layout {
    /// 41 bits of time since 2010-11-04 01:42:54.657 UTC, 10 of worker, 12 of sequence: the layout of Twitter's
    /// snowflakes, until 2080.
    pub const TWITTER: Self = Self::new(41, 10, 12, Duration::from_millis(1_288_834_974_657));

    /// 40 bits of time since 2017-01-01 UTC, 13 of worker, 10 of sequence: 8,192 workers with 1,024 ids in a
    /// millisecond each, until 2051.
    pub const MANY_WORKERS: Self = Self::new(40, 13, 10, Duration::from_secs(1_483_228_800));

    /// 41 bits of time since 2024-01-01 UTC, 6 of worker, 16 of sequence: 64 workers with 65,536 ids in a millisecond
    /// each, one in 15 ns, until 2093.
    pub const WIDE: Self = Self::new(41, 6, 16, Duration::from_secs(1_704_067_200));

    /// Creates a layout from the numbers of bits for time, worker and sequence, and the epoch from which time is
    /// counted, as the time since the Unix epoch.
    ///
    /// # Panics
    ///
    /// If there are more than 63 bits in all, no bit of time, or more than 31 bits of worker or of sequence. With 63
    /// bits an id is a positive `i64`. In a constant, the panic is a compile error.
    pub const fn new(time: u32, worker: u32, sequence: u32, epoch: Duration) -> Self {
        assert!(
            time >= 1 && time <= 63,
            "a layout needs 1 to 63 bits of time"
        );
        assert!(
            worker <= 31 && sequence <= 31,
            "a layout has at most 31 bits of worker and 31 of sequence"
        );
        assert!(
            time + worker + sequence <= 63,
            "a layout has at most 63 bits in all"
        );
        // The milliseconds of a `u64` last until the year 584,556,019.
        #[expect(
            clippy::cast_possible_truncation,
            reason = "checked by the assertion before"
        )]
        let epoch = {
            assert!(
                epoch.as_millis() <= u64::MAX as u128 / 2,
                "the epoch of a layout is too late"
            );
            epoch.as_millis() as u64
        };
        Self {
            time,
            worker,
            sequence,
            epoch,
        }
    }

    /// Returns the number of bits of time.
    pub const fn time_bits(&self) -> u32 {
        self.time
    }

    /// Returns the number of bits of the worker number.
    pub const fn worker_bits(&self) -> u32 {
        self.worker
    }

    /// Returns the number of bits of the sequence number.
    pub const fn sequence_bits(&self) -> u32 {
        self.sequence
    }

    /// Returns the epoch from which time is counted, as the time since the Unix epoch.
    pub const fn epoch(&self) -> Duration {
        Duration::from_millis(self.epoch)
    }

    /// Returns the number of workers.
    pub const fn workers(&self) -> u32 {
        1 << self.worker
    }

    /// Returns how many ids one worker can issue in a millisecond.
    pub const fn ids_per_millisecond(&self) -> u32 {
        1 << self.sequence
    }

    /// Returns the first time after the epoch that has no ids.
    pub fn end(&self) -> SystemTime {
        self.moment(self.ticks())
    }

    /// Decodes the parts of an id.
    ///
    /// Bits above those of the layout are ignored.
    pub fn parts(&self, id: Id) -> Parts {
        let bits = id.as_u64();
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a worker and a sequence have at most 31 bits"
        )]
        let part = |shift: u32, width: u32| ((bits >> shift) & ((1 << width) - 1)) as u32;
        let time = (bits >> (self.worker + self.sequence)) & (self.ticks() - 1);
        Parts {
            time: self.moment(time),
            worker: part(self.sequence, self.worker),
            sequence: part(0, self.sequence),
        }
    }

    /// Returns the smallest id of this time, which has worker number and sequence number 0.
    ///
    /// Ids of one layout are ordered by time, so that this is the bound of a search by time.
    /// Returns `None` if the layout cannot represent the time.
    pub fn first_of(&self, time: SystemTime) -> Option<Id> {
        let tick = self.tick(time).filter(|tick| *tick < self.ticks())?;
        Some(Id::new(tick << (self.worker + self.sequence)))
    }

    /// Returns the number of milliseconds.
    pub(crate) const fn ticks(&self) -> u64 {
        1 << self.time
    }

    /// Returns the millisecond of the epoch at a time, or `None` before the epoch.
    pub(crate) fn tick(&self, time: SystemTime) -> Option<u64> {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        self.tick_at(since)
    }

    /// Like [`tick`](Self::tick), from the time since the Unix epoch.
    pub(crate) fn tick_at(&self, unix: Duration) -> Option<u64> {
        u64::try_from(unix.as_millis())
            .ok()?
            .checked_sub(self.epoch)
    }

    /// Returns the start of a millisecond of the epoch.
    pub(crate) fn moment(&self, tick: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + self.begin_of(tick)
    }

    /// Like [`moment`](Self::moment), as the time since the Unix epoch.
    pub(crate) fn begin_of(&self, tick: u64) -> Duration {
        self.epoch() + Duration::from_millis(tick)
    }

    /// Returns the encoding of a worker's positions.
    pub(crate) const fn encoding(&self, worker: u32) -> Encoding {
        Encoding {
            shift: self.worker,
            sequence_mask: (1 << self.sequence) - 1,
            worker: (worker as u64) << self.sequence,
        }
    }
}

/// Encodes the positions of one worker as ids, with precomputed shifts and masks.
///
/// A position is the millisecond and, in its lower bits, the sequence number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Encoding {
    shift: u32,
    /// The mask of the sequence bits.
    sequence_mask: u64,
    /// The worker number, shifted to its bits.
    worker: u64,
}

impl Encoding {
    /// Returns the id at a position.
    #[inline]
    pub(crate) const fn id(&self, position: u64) -> Id {
        let time = (position & !self.sequence_mask) << self.shift;
        Id::new(time | self.worker | (position & self.sequence_mask))
    }
}

/// `41/10/12 bits since 1288834974657 ms`: time, worker, sequence, and the epoch in milliseconds of Unix time.
impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            time,
            worker,
            sequence,
            epoch,
        } = self;
        write!(f, "{time}/{worker}/{sequence} bits since {epoch} ms")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // covers: I3
    #[test]
    fn the_named_layouts_have_the_documented_bits() {
        let shape = |layout: Layout| (layout.time, layout.worker, layout.sequence);
        assert_eq!(shape(Layout::TWITTER), (41, 10, 12));
        assert_eq!(shape(Layout::MANY_WORKERS), (40, 13, 10));
        assert_eq!(shape(Layout::WIDE), (41, 6, 16));
        // A known snowflake of Twitter, of about 2013-02-21 04:02:10.619 UTC, with its parts computed by hand.
        let id = Id::new(304_447_236_292_935_680);
        let parts = Layout::TWITTER.parts(id);
        let since = (304_447_236_292_935_680_u64 >> 22) + 1_288_834_974_657;
        assert_eq!(
            parts.time,
            SystemTime::UNIX_EPOCH + Duration::from_millis(since)
        );
        assert_eq!(u64::from(parts.worker), (id.as_u64() >> 12) % 1024);
        assert_eq!(u64::from(parts.sequence), id.as_u64() % 4096);
    }

    // covers: I3
    #[test]
    fn layouts_of_too_many_bits_are_refused() {
        for (time, worker, sequence) in [
            (41, 11, 12),
            (0, 10, 12),
            (31, 32, 0),
            (10, 0, 32),
            (64, 0, 0),
        ] {
            let made =
                std::panic::catch_unwind(|| Layout::new(time, worker, sequence, Duration::ZERO));
            assert!(made.is_err(), "{time} {worker} {sequence}");
        }
        assert!(std::panic::catch_unwind(|| Layout::new(1, 0, 0, Duration::MAX)).is_err());
        assert_eq!(Layout::new(63, 0, 0, Duration::ZERO).workers(), 1);
    }

    #[test]
    fn times_outside_of_a_layout_have_no_first_id() {
        let layout = Layout::new(4, 2, 2, Duration::from_millis(100));
        let at = |millis| layout.first_of(SystemTime::UNIX_EPOCH + Duration::from_millis(millis));
        assert_eq!(at(99), None);
        assert_eq!(at(100), Some(Id::new(0)));
        assert_eq!(at(115), Some(Id::new(15 << 4)));
        assert_eq!(at(116), None);
        assert_eq!(layout.end(), layout.moment(16));
    }

    proptest! {
        // covers: I3
        #[test]
        fn an_id_decodes_to_the_parts_it_was_encoded_from(
            (time_bits, worker_bits, sequence_bits) in (1_u32..=41, 0_u32..=10, 0_u32..=12),
            epoch in 0_u64..=2_000_000_000_000,
            (time, worker, sequence) in any::<(u64, u32, u32)>(),
        ) {
            let layout =
                Layout::new(time_bits, worker_bits, sequence_bits, Duration::from_millis(epoch));
            let time = time % layout.ticks();
            let worker = worker % layout.workers();
            let sequence = sequence % layout.ids_per_millisecond();
            let position = (time << sequence_bits) | u64::from(sequence);
            let id = layout.encoding(worker).id(position);
            prop_assert!(i64::try_from(id.as_u64()).is_ok());
            let parts = layout.parts(id);
            prop_assert_eq!(parts.time, layout.moment(time));
            prop_assert_eq!((parts.worker, parts.sequence), (worker, sequence));
            prop_assert!(layout.first_of(parts.time).unwrap() <= id);
            // The id at the next position is larger, for every worker.
            let next = position + u64::from(layout.ids_per_millisecond());
            prop_assert!(layout.encoding(0).id(next) > id);
        }
    }
}
