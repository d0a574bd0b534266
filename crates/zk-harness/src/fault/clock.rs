//! Moves the wall clock of a server.

use crate::error::Error;
use crate::movable_clock::{CLOCK_FAULT, CLOCK_FILE, ClockShift};
use crate::private_files;
use crate::server::Server;
use crate::unavailable::Unavailable;

impl Server {
    /// Moves the server's wall clock, but not the clocks of the machine and of the other servers.
    ///
    /// The server sees the shift within a second: the times of nodes jump. Sessions do not expire, because servers
    /// measure session timeouts with the monotonic clock, which is not shifted.
    /// The shift persists across restarts of the server.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] unless the ensemble was started with
    /// [`movable_clock`](crate::EnsembleBuilder::movable_clock), [`Error::Io`] if the file with the shift cannot be
    /// written.
    pub fn shift_clock(&self, shift: ClockShift) -> Result<(), Error> {
        self.expect_process(CLOCK_FAULT)?;
        let file = self.directory().join(CLOCK_FILE);
        if !file.exists() {
            return Err(Unavailable {
                fault: CLOCK_FAULT,
                reason:
                    "the ensemble was started without movable clocks; start it with movable clocks"
                        .into(),
            }
            .into());
        }
        private_files::write(&file, &shift.text())
    }
}
