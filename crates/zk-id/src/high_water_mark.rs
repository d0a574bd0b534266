//! Stores the time up to which ids of a worker number may have been issued.
//!
//! A process reserves time in the mark before it uses that time, and the next holder of the number starts at the end of
//! the reservation. Ids therefore do not repeat if the clock went back meanwhile, if the next process has another
//! clock, or if the last process does not know yet that it lost its number.
//! Each write is conditional on the version that was read, so that a process without the number cannot reserve more
//! time.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use zk_core::{Error, ErrorKind, NodePath, Session, Stat};

use crate::error::{ClaimError, excerpt};
use crate::path_schema::{MAX_ATTEMPTS, is_conflict};
use crate::server_time::ServerTime;

/// The mark of a worker number that this process holds.
#[derive(Debug)]
pub(crate) struct HighWaterMark {
    session: Session,
    path: NodePath,
    /// The unique text that identifies this writer in the data.
    writer: String,
    /// The version of our last known write.
    version: i32,
    reserved: SystemTime,
    /// The leader's clock at our last known write.
    server: ServerTime,
    /// When the last write was sent.
    sent_at: Instant,
    /// Whether the outcome of our last write is unknown.
    has_unknown_write: bool,
}

/// The result of taking a mark over.
#[derive(Debug)]
pub(crate) enum TakeOver {
    /// The mark is ours. The previous holder may have issued ids before `previous`; `None` if there was no mark.
    Done {
        mark: HighWaterMark,
        previous: Option<SystemTime>,
    },
    /// The mark is unchanged, because it reserves time after the accepted limit.
    TooFarAhead { reserved: SystemTime },
}

/// Time was not reserved.
#[derive(Debug)]
pub(crate) enum ReserveError {
    /// Another client has written or deleted the mark.
    Changed,
    /// The clock is too far ahead of the servers' clock.
    ClockAhead { by: Duration },
    /// The request failed. A later one may succeed unless the error is fatal.
    Failed(Error),
}

impl HighWaterMark {
    /// Takes the mark over from the previous holder of the number and reserves time up to `until`, or up to the end of
    /// the previous reservation if that is later. Leaves the mark alone if it reserves time after `latest`.
    pub(crate) async fn take_over(
        session: &Session,
        path: NodePath,
        writer: String,
        until: SystemTime,
        latest: Option<SystemTime>,
    ) -> Result<TakeOver, ClaimError> {
        let mut previous = None;
        for _ in 0..MAX_ATTEMPTS {
            let found = match session.get(&path).await {
                Ok((data, stat)) => {
                    let found = MarkData::parse(&data).ok_or_else(|| ClaimError::BadMark {
                        path: path.clone(),
                        found: excerpt(&data),
                    })?;
                    // Time that we reserved ourselves, by a write with an unknown outcome, is unused.
                    if found.writer != writer {
                        if latest.is_some_and(|latest| found.reserved > latest) {
                            return Ok(TakeOver::TooFarAhead {
                                reserved: found.reserved,
                            });
                        }
                        previous = Some(found.reserved);
                    }
                    Some(stat.version)
                }
                Err(error) if error.is_no_node() => None,
                Err(error) => return Err(error.into()),
            };
            let new = MarkData {
                reserved: previous.unwrap_or(until).max(until),
                writer: &writer,
            };
            let data = new.to_string();
            let sent_at = Instant::now();
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
                        reserved: new.reserved,
                        writer,
                        server: ServerTime::new(stat.mtime, sent_at),
                        sent_at,
                        has_unknown_write: false,
                    };
                    return Ok(TakeOver::Done { mark, previous });
                }
                Err(error) if is_conflict(error.kind()) => session.sync(&path).await?,
                Err(error) => return Err(error.into()),
            }
        }
        Err(ClaimError::Contended { path })
    }

    /// Returns the time up to which ids may be issued.
    pub(crate) fn reserved(&self) -> SystemTime {
        self.reserved
    }

    pub(crate) const fn session(&self) -> &Session {
        &self.session
    }

    /// Reserves `span` from the local time `now` on, unless `now` is more than `max_ahead` ahead of the servers' clock.
    pub(crate) async fn reserve(
        &mut self,
        now: SystemTime,
        span: Duration,
        max_ahead: Duration,
    ) -> Result<(), ReserveError> {
        self.resolve_unknown_write().await?;
        if self.ahead(now) > max_ahead {
            // Our monotonic clock may have stood still since the last write. Another write has a new timestamp.
            self.write(self.reserved).await?;
            let by = self.ahead(now);
            if by > max_ahead {
                return Err(ReserveError::ClockAhead { by });
            }
        }
        let until = now + span;
        if until > self.reserved {
            self.write(until).await?;
        }
        Ok(())
    }

    /// Releases the reservation from `until` on. The process must never issue another id.
    pub(crate) async fn give_back(&mut self, until: SystemTime) -> Result<(), ReserveError> {
        self.resolve_unknown_write().await?;
        if until < self.reserved {
            self.write(until).await?;
        }
        Ok(())
    }

    /// Reads the outcome of a write whose reply was lost, or whose future was dropped.
    async fn resolve_unknown_write(&mut self) -> Result<(), ReserveError> {
        if !self.has_unknown_write {
            return Ok(());
        }
        let sync = self.session.sync(&self.path).with_quorum();
        sync.await.map_err(ReserveError::of)?;
        let get = self.session.get(&self.path);
        let (data, stat) = get.await.map_err(ReserveError::of)?;
        match MarkData::parse(&data) {
            Some(found) if found.writer == self.writer => {
                self.wrote(&stat);
                self.reserved = found.reserved;
                self.has_unknown_write = false;
                Ok(())
            }
            _ => Err(ReserveError::Changed),
        }
    }

    async fn write(&mut self, reserved: SystemTime) -> Result<(), ReserveError> {
        let new = MarkData {
            reserved,
            writer: &self.writer,
        };
        let set = self.session.set(&self.path, new.to_string());
        // True until the reply arrives, and for good if this future is dropped before.
        self.has_unknown_write = true;
        self.sent_at = Instant::now();
        let reply = set.version(self.version).idempotent().await;
        let stat = reply.map_err(ReserveError::of)?;
        self.wrote(&stat);
        self.reserved = reserved;
        self.has_unknown_write = false;
        Ok(())
    }

    fn wrote(&mut self, stat: &Stat) {
        self.version = stat.version;
        self.server = ServerTime::new(stat.mtime, self.sent_at);
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

/// The data of a mark: Unix time in milliseconds, and the writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MarkData<'a> {
    reserved: SystemTime,
    writer: &'a str,
}

impl<'a> MarkData<'a> {
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

/// Returns the end of the reserved time in the data of a mark; `None` if it is no mark.
pub(crate) fn parse_mark(data: &[u8]) -> Option<SystemTime> {
    MarkData::parse(data).map(|mark| mark.reserved)
}

impl std::fmt::Display for MarkData<'_> {
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
    fn a_mark_holds_the_time_and_its_writer() {
        let data = MarkData {
            reserved: SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_123),
            writer: "0x7-1",
        };
        assert_eq!(data.to_string(), "1700000000123 0x7-1");
        assert_eq!(MarkData::parse(b"1700000000123 0x7-1"), Some(data));
        // As an operator repairs it.
        let repaired = MarkData::parse(b"1700000000123").unwrap();
        assert_eq!((repaired.reserved, repaired.writer), (data.reserved, ""));
        for wrong in [
            &b""[..],
            b"+1",
            b"x",
            b" 1",
            b"\xff",
            b"99999999999999999999 x",
        ] {
            assert_eq!(MarkData::parse(wrong), None, "{wrong:?}");
        }
    }
}
