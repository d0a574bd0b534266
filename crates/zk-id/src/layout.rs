//! Defines the bit layout of ids.

use std::fmt;
use std::time::{Duration, SystemTime};

use crate::id::Id;

/// The bit layout of an id: from the top, milliseconds since an epoch, worker number, and sequence number within the
/// millisecond.
///
/// Time may be counted in [other units](Self::with_time_unit), and the worker number may be
/// [last](Self::with_worker_last). The shapes of other generators are values of this type:
///
/// | ids of | layout |
/// |---|---|
/// | Twitter | [`TWITTER`](Self::TWITTER) |
/// | Discord | `Layout::new(41, 10, 12, Duration::from_secs(1_420_070_400))` |
/// | Instagram | `Layout::new(40, 13, 10, Duration::from_millis(1_314_220_021_721))`, the worker being the shard |
/// | Sonyflake | [`SONYFLAKE`](Self::SONYFLAKE) |
///
/// For example, seconds, for 65,536 workers until 2106:
/// `Layout::new(32, 16, 15, Duration::ZERO).with_time_unit(Duration::from_secs(1))`.
///
/// An invalid layout in a constant is a compile error:
///
/// ```
/// use std::time::Duration;
/// use zk_id::Layout;
///
/// /// For 64 workers until 2097, since 2028.
/// const OURS: Layout = Layout::new(41, 6, 16, Duration::from_secs(1_830_297_600));
/// assert_eq!(OURS.ids_per_unit(), 65_536);
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
    /// The unit of time in milliseconds.
    unit: u64,
    /// Whether the worker number is below the sequence number.
    is_worker_last: bool,
}

/// The parts of an id, decoded with the [`Layout`] of its generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Parts {
    /// The start of the [time unit](Layout::time_unit) in which the id was issued, by the clock of its generator.
    pub time: SystemTime,
    /// The worker number.
    pub worker: u32,
    /// The sequence number within the time unit.
    pub sequence: u32,
}

/// An id cannot be composed: the layout has no room for a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ComposeError {
    /// The time is before the epoch of the layout, or not before its [end](Layout::end).
    #[error("the layout {layout} represents the time from {:?} until {:?}, not {time:?}", layout.moment(0), layout.end())]
    Time {
        /// The time.
        time: SystemTime,
        /// The layout.
        layout: Layout,
    },
    /// The layout has fewer workers.
    #[error("the layout {layout} has worker numbers up to {}, not {worker}", layout.workers() - 1)]
    Worker {
        /// The worker number.
        worker: u32,
        /// The layout.
        layout: Layout,
    },
    /// The layout has fewer ids for each worker in a time unit.
    #[error("the layout {layout} has sequence numbers up to {}, not {sequence}", layout.ids_per_unit() - 1)]
    Sequence {
        /// The sequence number.
        sequence: u32,
        /// The layout.
        layout: Layout,
    },
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

    /// 39 bits of time in units of 10 ms since 2014-09-01 UTC, 8 of sequence, and 16 of worker last: the default layout
    /// of Sonyflake, until 2188.
    pub const SONYFLAKE: Self = Self::new(39, 16, 8, Duration::from_secs(1_409_529_600))
        .with_time_unit(Duration::from_millis(10))
        .with_worker_last();

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
            unit: 1,
            is_worker_last: false,
        }
    }

    /// Sets the unit in which time is counted; default one millisecond.
    ///
    /// A generator that has issued all ids of a unit waits for the next one. The next holder of a worker number waits
    /// for the next unit, too.
    ///
    /// # Panics
    ///
    /// If the unit is not a whole number of milliseconds from 1 to 1,000, or is longer than 1 ms in a layout with more
    /// than 51 bits of time. In a constant, the panic is a compile error.
    #[must_use]
    pub const fn with_time_unit(mut self, unit: Duration) -> Self {
        assert!(
            unit.as_millis() >= 1
                && unit.as_millis() <= 1000
                && unit.subsec_nanos().is_multiple_of(1_000_000),
            "the time unit of a layout is a whole number of milliseconds from 1 to 1,000"
        );
        #[expect(
            clippy::cast_possible_truncation,
            reason = "checked by the assertion before"
        )]
        let millis = unit.as_millis() as u64;
        assert!(
            millis == 1 || self.time <= 51,
            "a layout with a time unit of more than a millisecond has at most 51 bits of time"
        );
        self.unit = millis;
        self
    }

    /// Puts the worker number into the lowest bits, below the sequence number, as Sonyflake does.
    ///
    /// Ids of different workers from the same time unit are then ordered by their sequence numbers.
    #[must_use]
    pub const fn with_worker_last(mut self) -> Self {
        self.is_worker_last = true;
        self
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

    /// Returns how many ids one worker can issue in a [time unit](Self::time_unit), by default a millisecond.
    pub const fn ids_per_unit(&self) -> u32 {
        1 << self.sequence
    }

    /// Returns the unit in which time is counted.
    pub const fn time_unit(&self) -> Duration {
        Duration::from_millis(self.unit)
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
        let (worker_shift, sequence_shift) = if self.is_worker_last {
            (0, self.worker)
        } else {
            (self.sequence, 0)
        };
        Parts {
            time: self.moment(time),
            worker: part(worker_shift, self.worker),
            sequence: part(sequence_shift, self.sequence),
        }
    }

    /// Composes an id from its parts, the inverse of [`parts`](Self::parts). The time is rounded down to the
    /// [unit](Self::time_unit).
    ///
    /// It does not make the id unique: only a generator does. Use it to search by time and worker, to convert ids
    /// between layouts, and in tests.
    ///
    /// # Errors
    ///
    /// If the layout has no room for a part.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use zk_id::{ComposeError, Layout};
    ///
    /// let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_800_000_000_123);
    /// let id = Layout::TWITTER.compose(time, 7, 42)?;
    /// let parts = Layout::TWITTER.parts(id);
    /// assert_eq!((parts.time, parts.worker, parts.sequence), (time, 7, 42));
    /// let error = Layout::TWITTER.compose(time, 1024, 0).unwrap_err();
    /// assert!(matches!(error, ComposeError::Worker { .. }));
    /// # Ok::<(), ComposeError>(())
    /// ```
    pub fn compose(
        &self,
        time: SystemTime,
        worker: u32,
        sequence: u32,
    ) -> Result<Id, ComposeError> {
        let layout = *self;
        let tick = self.tick(time).filter(|tick| *tick < self.ticks());
        let tick = tick.ok_or(ComposeError::Time { time, layout })?;
        if worker >= self.workers() {
            return Err(ComposeError::Worker { worker, layout });
        }
        if sequence >= self.ids_per_unit() {
            return Err(ComposeError::Sequence { sequence, layout });
        }
        let position = (tick << self.sequence) | u64::from(sequence);
        Ok(self.encoding(worker).id(position))
    }

    /// Returns the smallest id of this time, which has worker number and sequence number 0.
    ///
    /// Ids of one layout are ordered by time, so that this is the bound of a search by time.
    /// Returns `None` if the layout cannot represent the time.
    pub fn first_of(&self, time: SystemTime) -> Option<Id> {
        self.compose(time, 0, 0).ok()
    }

    /// Returns the unit of time in milliseconds.
    pub(crate) const fn unit_millis(&self) -> u64 {
        self.unit
    }

    /// Returns the number of time units.
    pub(crate) const fn ticks(&self) -> u64 {
        1 << self.time
    }

    /// Returns the time unit of the epoch at a time, or `None` before the epoch.
    pub(crate) fn tick(&self, time: SystemTime) -> Option<u64> {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        self.tick_at(since)
    }

    /// Like [`tick`](Self::tick), from the time since the Unix epoch.
    pub(crate) fn tick_at(&self, unix: Duration) -> Option<u64> {
        let since = u64::try_from(unix.as_millis()).ok()?;
        Some(since.checked_sub(self.epoch)? / self.unit)
    }

    /// Returns the start of a time unit of the epoch.
    pub(crate) fn moment(&self, tick: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + self.begin_of(tick)
    }

    /// Like [`moment`](Self::moment), as the time since the Unix epoch.
    pub(crate) fn begin_of(&self, tick: u64) -> Duration {
        self.epoch() + Duration::from_millis(tick * self.unit)
    }

    /// Returns the encoding of a worker's positions.
    pub(crate) const fn encoding(&self, worker: u32) -> Encoding {
        if self.is_worker_last {
            return Encoding {
                shift: self.worker,
                sequence_mask: 0,
                worker: worker as u64,
            };
        }
        Encoding {
            shift: self.worker,
            sequence_mask: (1 << self.sequence) - 1,
            worker: (worker as u64) << self.sequence,
        }
    }
}

/// Encodes the positions of one worker as ids, with precomputed shifts and masks.
///
/// A position is the time unit and, in its lower bits, the sequence number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Encoding {
    shift: u32,
    /// The mask of the bits that stay below the worker number: those of the sequence, or none.
    sequence_mask: u64,
    /// The worker number, shifted to its bits.
    worker: u64,
}

impl Encoding {
    /// Returns the id at a position.
    #[inline]
    pub(crate) const fn id(&self, position: u64) -> Id {
        let above = (position & !self.sequence_mask) << self.shift;
        Id::new(above | self.worker | (position & self.sequence_mask))
    }
}

/// `41/10/12 bits since 1288834974657 ms`: time, worker, sequence, and the epoch in milliseconds of Unix time.
/// Then, if they are not the default, `, in units of 10 ms` and `, worker last`.
impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            time,
            worker,
            sequence,
            epoch,
            unit,
            is_worker_last,
        } = self;
        // Processes compare this text, so that it stays the same for ever.
        write!(f, "{time}/{worker}/{sequence} bits since {epoch} ms")?;
        if *unit != 1 {
            write!(f, ", in units of {unit} ms")?;
        }
        if *is_worker_last {
            f.write_str(", worker last")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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

    /// Ids whose parts other generators document.
    #[test]
    fn shapes_of_other_generators_can_be_expressed() {
        let millis = |millis| SystemTime::UNIX_EPOCH + Duration::from_millis(millis);
        // Instagram's article: 1,387,263,000 ms after the epoch, user 31,341 in shard 31,341 % 2000, number 5,001.
        let instagram = Layout::new(40, 13, 10, Duration::from_millis(1_314_220_021_721));
        let id = Id::new((1_387_263_000 << 23) | (1_341 << 10) | (5_001 % 1_024));
        let parts = instagram.parts(id);
        assert_eq!(parts.time, millis(1_314_220_021_721 + 1_387_263_000));
        assert_eq!((parts.worker, parts.sequence), (1_341, 905));
        // Discord's reference: https://discord.com/developers/docs/reference#snowflakes
        let discord = Layout::new(41, 10, 12, Duration::from_secs(1_420_070_400));
        let parts = discord.parts(Id::new(175_928_847_299_117_063));
        assert_eq!(parts.time, millis(1_462_015_105_796));
        assert_eq!((parts.worker, parts.sequence), ((1 << 5), 7));
        // Sonyflake: time << 24 | sequence << 16 | machine.
        let sonyflake = Layout::SONYFLAKE;
        let time = millis(1_409_529_600_000 + 12_345_678_909);
        let id = sonyflake.compose(time, 0xabcd, 0xef).unwrap();
        assert_eq!(id.as_u64(), (1_234_567_890 << 24) | 0x00ef_abcd);
        let parts = sonyflake.parts(id);
        assert_eq!(parts.time, millis(1_409_529_600_000 + 12_345_678_900));
        assert_eq!((parts.worker, parts.sequence), (0xabcd, 0xef));
    }

    /// The texts that processes compare; those without a unit are the ones of the first version.
    #[test]
    fn layouts_are_described_in_the_same_way_for_ever() {
        let second = Duration::from_secs(1);
        for (layout, text) in [
            (Layout::TWITTER, "41/10/12 bits since 1288834974657 ms"),
            (
                Layout::WIDE.with_time_unit(Duration::from_millis(1)),
                "41/6/16 bits since 1704067200000 ms",
            ),
            (
                Layout::SONYFLAKE,
                "39/16/8 bits since 1409529600000 ms, in units of 10 ms, worker last",
            ),
            (
                Layout::new(32, 16, 15, second).with_time_unit(second),
                "32/16/15 bits since 1000 ms, in units of 1000 ms",
            ),
        ] {
            assert_eq!(layout.to_string(), text);
        }
    }

    #[test]
    fn time_units_that_are_no_milliseconds_are_refused() {
        for unit in [
            Duration::ZERO,
            Duration::from_micros(1),
            Duration::from_micros(1_500),
            Duration::from_millis(1_001),
            Duration::MAX,
        ] {
            let made = std::panic::catch_unwind(|| Layout::TWITTER.with_time_unit(unit));
            assert!(made.is_err(), "{unit:?}");
        }
        let second = Duration::from_secs(1);
        let endless = Layout::new(52, 0, 0, Duration::ZERO);
        assert!(std::panic::catch_unwind(|| endless.with_time_unit(second)).is_err());
        let longest = Layout::new(51, 0, 0, Duration::ZERO).with_time_unit(second);
        assert!(longest.end() > SystemTime::UNIX_EPOCH);
    }

    #[test]
    fn parts_without_room_are_refused_and_say_what_has_room() {
        let layout = Layout::new(4, 2, 2, Duration::from_millis(100));
        let at = |millis| SystemTime::UNIX_EPOCH + Duration::from_millis(millis);
        assert_eq!(layout.compose(at(115), 3, 3), Ok(Id::new(255)));
        for time in [at(99), at(116)] {
            let error = layout.compose(time, 0, 0).unwrap_err();
            assert_eq!(error, ComposeError::Time { time, layout });
        }
        let error = layout.compose(at(100), 4, 0).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the layout 4/2/2 bits since 100 ms has worker numbers up to 3, not 4"
        );
        let error = layout.compose(at(100), 0, 4).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the layout 4/2/2 bits since 100 ms has sequence numbers up to 3, not 4"
        );
    }

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
        #[test]
        fn an_id_decodes_to_the_parts_it_was_encoded_from(
            (time_bits, worker_bits, sequence_bits) in (1_u32..=41, 0_u32..=10, 0_u32..=12),
            epoch in 0_u64..=2_000_000_000_000,
            (time, worker, sequence) in any::<(u64, u32, u32)>(),
            (unit, is_worker_last) in (1_u64..=1000, any::<bool>()),
        ) {
            let mut layout =
                Layout::new(time_bits, worker_bits, sequence_bits, Duration::from_millis(epoch))
                    .with_time_unit(Duration::from_millis(unit));
            if is_worker_last {
                layout = layout.with_worker_last();
            }
            let time = time % layout.ticks();
            let worker = worker % layout.workers();
            let sequence = sequence % layout.ids_per_unit();
            let position = (time << sequence_bits) | u64::from(sequence);
            let id = layout.encoding(worker).id(position);
            prop_assert!(i64::try_from(id.as_u64()).is_ok());
            let parts = layout.parts(id);
            prop_assert_eq!(parts.time, layout.moment(time));
            prop_assert_eq!((parts.worker, parts.sequence), (worker, sequence));
            let last = parts.time + layout.time_unit() - Duration::from_millis(1);
            prop_assert_eq!(layout.compose(last, worker, sequence), Ok(id));
            prop_assert!(layout.first_of(parts.time).unwrap() <= id);
            // The ids of the next time unit are larger, for every worker.
            let next = position + u64::from(layout.ids_per_unit());
            prop_assert!(layout.encoding(0).id(next) > id);
        }
    }
}
