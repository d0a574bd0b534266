//! The dynamic configuration of an ensemble.
//!
//! Pure: no I/O and no clock.

/// The dynamic configuration of an ensemble; returned by [`Session::config`](crate::Session::config).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnsembleConfig {
    text: String,
}

impl EnsembleConfig {
    pub(crate) fn new(data: &[u8]) -> Self {
        Self {
            text: String::from_utf8_lossy(data).into_owned(),
        }
    }

    /// Returns the configuration as servers write it: a line `server.<id>=<addresses>` for each server, and
    /// `version=<version>`. A single server without a quorum configuration has none, and the text is empty.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the zxid of the transaction that made this configuration; 0 if it is still that of the servers' files,
    /// `None` if the text contains no version.
    pub fn version(&self) -> Option<i64> {
        let mut lines = self.text.lines();
        let version = lines.find_map(|line| line.strip_prefix("version="))?;
        i64::from_str_radix(version.trim(), 16).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_hexadecimal_number_in_its_line() {
        let two =
            "server.1=h:1:2:participant;0.0.0.0:3\nserver.2=h:4:5:observer;6\nversion=1a0000000f";
        for (text, version) in [
            (two, Some(0x1a_0000_000f)),
            ("server.1=h\nversion=0\n", Some(0)),
            ("version=10\r\n", Some(16)),
            ("", None),
            ("server.1=h", None),
            ("server.1=version=7", None),
            ("version=", None),
            ("version=xyz", None),
        ] {
            let config = EnsembleConfig::new(text.as_bytes());
            assert_eq!(config.version(), version, "{text}");
            assert_eq!(config.text(), text);
        }
        assert_eq!(EnsembleConfig::new(b"\xff\nversion=2").version(), Some(2));
    }
}
