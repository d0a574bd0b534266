//! Up to which time ids of a worker number may have been given out, as a node says it.
//!
//! A process reserves time before it uses it, and the next one begins where the reservation ends: whether the clock went
//! back meanwhile, or is another one's, and whether the last process knows that it lost its number, does not matter.
//! Each write is under the version that was read, so that a process that has lost its number cannot reserve any more.

use std::time::Duration;
use std::time::SystemTime;

use tokio::time::Instant;
use zk_core::Error;
use zk_core::ErrorKind;
use zk_core::NodePath;
use zk_core::Session;
use zk_core::Stat;

use crate::error::ClaimError;
use crate::error::excerpt;
use crate::path_schema::ROUNDS;
use crate::path_schema::is_overtaken;
use crate::server_time::ServerTime;

/// The mark of a worker number that is ours.
#[derive(Debug)]
pub(crate) struct Mark {
    session: Session,
    path: NodePath,
    /// Who we are, in the data; nobody else has it.
    writer: String,
    /// What we have written last, as far as we know.
    version: i32,
    reserved: SystemTime,
    /// The leader's clock when it carried out the last write that we know of.
    server: ServerTime,
    /// When the last write was sent.
    asked: Instant,
    /// Whether a write of ours may have been carried out that we do not know of.
    is_in_doubt: bool,
}

/// What became of taking a mark over.
#[derive(Debug)]
pub(crate) enum TakeOver {
    /// It is ours. The last process may have given out ids before `floor`; `None` when there was none.
    Done {
        mark: Mark,
        floor: Option<SystemTime>,
    },
    /// It was left alone: more is reserved than was to be accepted.
    TooFarAhead { reserved: SystemTime },
}

/// A reservation was refused.
#[derive(Debug)]
pub(crate) enum ReserveError {
    /// Somebody else has written the mark, or deleted it.
    Changed,
    /// The clock is ahead of the servers' by more than it may be.
    ClockAhead { by: Duration },
    /// The ensemble did not do it, which it may later unless the error is fatal.
    Failed(Error),
}

impl Mark {
    /// Takes the mark over from the process that had the number before, and reserves time: `until`, or more if that one
    /// had more; but leaves it alone if that one had time after `latest`.
    pub(crate) async fn take_over(
        session: &Session,
        path: NodePath,
        writer: String,
        until: SystemTime,
        latest: Option<SystemTime>,
    ) -> Result<TakeOver, ClaimError> {
        let mut floor = None;
        for _ in 0..ROUNDS {
            let found = match session.get(&path).await {
                Ok((data, stat)) => {
                    let entry = Entry::parse(&data).ok_or_else(|| ClaimError::BadMark {
                        path: path.clone(),
                        found: excerpt(&data),
                    })?;
                    // What is reserved by a write of ours in doubt was not used.
                    if entry.writer != writer {
                        if latest.is_some_and(|latest| entry.reserved > latest) {
                            return Ok(TakeOver::TooFarAhead {
                                reserved: entry.reserved,
                            });
                        }
                        floor = Some(entry.reserved);
                    }
                    Some(stat.version)
                }
                Err(error) if error.is_no_node() => None,
                Err(error) => return Err(error.into()),
            };
            let entry = Entry {
                reserved: floor.unwrap_or(until).max(until),
                writer: &writer,
            };
            let data = entry.to_string();
            let asked = Instant::now();
            let written = if let Some(version) = found {
                session.set(&path, data).version(version).idempotent().await
            } else {
                let create = session.create(&path, data).idempotent();
                create.await.map(|(_, stat)| stat)
            };
            match written {
                Ok(stat) => {
                    let mark = Self {
                        session: session.clone(),
                        path,
                        version: stat.version,
                        reserved: entry.reserved,
                        writer,
                        server: ServerTime::new(stat.mtime, asked),
                        asked,
                        is_in_doubt: false,
                    };
                    return Ok(TakeOver::Done { mark, floor });
                }
                Err(error) if is_overtaken(error.kind()) => session.sync(&path).await?,
                Err(error) => return Err(error.into()),
            }
        }
        Err(ClaimError::Disturbed { path })
    }

    /// Returns the time up to which ids may be given out.
    pub(crate) fn reserved(&self) -> SystemTime {
        self.reserved
    }

    pub(crate) const fn session(&self) -> &Session {
        &self.session
    }

    /// Reserves `span` from the time `now` of our clock on, unless that is ahead of the servers' by more than `most`.
    pub(crate) async fn reserve(
        &mut self,
        now: SystemTime,
        span: Duration,
        most: Duration,
    ) -> Result<(), ReserveError> {
        self.settle_doubt().await?;
        if self.ahead(now) > most {
            // Or our monotonic clock stood still since the last write: another write has a new timestamp.
            self.write(self.reserved).await?;
            let by = self.ahead(now);
            if by > most {
                return Err(ReserveError::ClockAhead { by });
            }
        }
        let until = now + span;
        if until > self.reserved {
            self.write(until).await?;
        }
        Ok(())
    }

    /// Gives back what is reserved from `until` on, for a process that will never give out another id.
    pub(crate) async fn give_back(&mut self, until: SystemTime) -> Result<(), ReserveError> {
        self.settle_doubt().await?;
        if until < self.reserved {
            self.write(until).await?;
        }
        Ok(())
    }

    /// Finds out what became of a write whose answer was lost, or that was dropped.
    async fn settle_doubt(&mut self) -> Result<(), ReserveError> {
        if !self.is_in_doubt {
            return Ok(());
        }
        let sync = self.session.sync(&self.path);
        sync.await.map_err(ReserveError::of)?;
        let get = self.session.get(&self.path);
        let (data, stat) = get.await.map_err(ReserveError::of)?;
        match Entry::parse(&data) {
            Some(entry) if entry.writer == self.writer => {
                self.wrote(&stat);
                self.reserved = entry.reserved;
                self.is_in_doubt = false;
                Ok(())
            }
            _ => Err(ReserveError::Changed),
        }
    }

    async fn write(&mut self, reserved: SystemTime) -> Result<(), ReserveError> {
        let entry = Entry {
            reserved,
            writer: &self.writer,
        };
        let set = self.session.set(&self.path, entry.to_string());
        // Until it is known, also when this is dropped.
        self.is_in_doubt = true;
        self.asked = Instant::now();
        let answer = set.version(self.version).idempotent().await;
        let stat = answer.map_err(ReserveError::of)?;
        self.wrote(&stat);
        self.reserved = reserved;
        self.is_in_doubt = false;
        Ok(())
    }

    fn wrote(&mut self, stat: &Stat) {
        self.version = stat.version;
        self.server = ServerTime::new(stat.mtime, self.asked);
    }

    fn ahead(&self, now: SystemTime) -> Duration {
        self.server.ahead(now, Instant::now())
    }
}

impl ReserveError {
    fn of(error: Error) -> Self {
        match error.kind() {
            ErrorKind::BadVersion | ErrorKind::NoNode => Self::Changed,
            _ => Self::Failed(error),
        }
    }
}

/// What a mark says: Unix time in milliseconds, and who wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry<'a> {
    reserved: SystemTime,
    writer: &'a str,
}

impl<'a> Entry<'a> {
    fn parse(data: &'a [u8]) -> Option<Self> {
        let text = str::from_utf8(data).ok()?;
        let (millis, writer) = text.split_once(' ').unwrap_or((text, ""));
        if !millis.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let since = Duration::from_millis(millis.parse().ok()?);
        Some(Self {
            reserved: SystemTime::UNIX_EPOCH.checked_add(since)?,
            writer,
        })
    }
}

impl std::fmt::Display for Entry<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let since = self.reserved.duration_since(SystemTime::UNIX_EPOCH);
        write!(
            f,
            "{} {}",
            since.unwrap_or_default().as_millis(),
            self.writer
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_says_the_time_and_its_writer() {
        let entry = Entry {
            reserved: SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_123),
            writer: "0x7-1",
        };
        assert_eq!(entry.to_string(), "1700000000123 0x7-1");
        assert_eq!(Entry::parse(b"1700000000123 0x7-1"), Some(entry));
        // As a person repairs it.
        let repaired = Entry::parse(b"1700000000123").unwrap();
        assert_eq!((repaired.reserved, repaired.writer), (entry.reserved, ""));
        for wrong in [
            &b""[..],
            b"+1",
            b"x",
            b" 1",
            b"\xff",
            b"99999999999999999999 x",
        ] {
            assert_eq!(Entry::parse(wrong), None, "{wrong:?}");
        }
    }
}
