//! The data of a lock's node, in which its owner identifies itself: readable as text, and parseable.
//!
//! Pure: no I/O and no clock.

use std::fmt;

/// Identifies a holder or waiter, in the data of its node.
///
/// The data is text, one entry a line, optionally followed by an empty line and a payload of any bytes:
///
/// ```text
/// owner: build7/4242
/// label: nightly build
///
/// any bytes
/// ```
///
/// The first line has the host and the process. Nodes of other programs have other data: [`parse`](Self::parse) returns
/// `None` for it, and [`Contender::owner`](crate::Contender::owner) returns the bytes.
///
/// The data has no times. [`Contender::since`](crate::Contender::since) returns when the owner joined the queue.
/// When it was granted the lock is not stored, since that would take a write for every grant.
///
/// # Examples
///
/// ```
/// use zk_lock::LockOptions;
/// use zk_lock::OwnerInfo;
///
/// let owner = OwnerInfo::this_process().with_label("nightly build");
/// assert_eq!(OwnerInfo::parse(&owner.to_bytes()), Some(owner.clone()));
/// let options = LockOptions::default().with_owner(owner);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerInfo {
    host: String,
    pid: u32,
    label: Option<String>,
    payload: Option<Vec<u8>>,
}

impl OwnerInfo {
    /// Identifies a process on any host.
    pub fn new(host: impl Into<String>, pid: u32) -> Self {
        Self {
            host: host.into(),
            pid,
            label: None,
            payload: None,
        }
    }

    /// Sets a short label, such as the purpose.
    #[must_use]
    pub fn with_label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Sets the payload, any bytes.
    ///
    /// Each waiter reads that of its predecessor: keep it short and free of secrets.
    #[must_use]
    pub fn with_payload(mut self, payload: impl Into<Vec<u8>>) -> Self {
        self.payload = Some(payload.into());
        self
    }

    /// Parses the data of a node; returns `None` for data in another format.
    ///
    /// Unknown lines are skipped.
    pub fn parse(data: &[u8]) -> Option<Self> {
        let (lines, payload) = split(data)?;
        let mut lines = lines.into_iter();
        let (host, pid) = lines.next()?.strip_prefix(OWNER)?.rsplit_once('/')?;
        let mut owner = Self {
            payload: payload.map(<[u8]>::to_vec),
            ..Self::new(unescaped(host), pid.parse().ok()?)
        };
        owner.label = lines
            .find_map(|line| line.strip_prefix(LABEL))
            .map(unescaped);
        Some(owner)
    }

    /// Formats it as the data of a node.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut text = format!("{OWNER}{}/{}", escaped(&self.host), self.pid);
        if let Some(label) = &self.label {
            text.push('\n');
            text.push_str(LABEL);
            text.push_str(&escaped(label));
        }
        joined(&[&text], self.payload.as_deref())
    }

    /// Returns the name of the host.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the label.
    pub fn label(&self) -> Option<&str> {
        self.label.as_deref()
    }

    /// Returns the payload.
    pub fn payload(&self) -> Option<&[u8]> {
        self.payload.as_deref()
    }
}

/// Writes the host, the process and the label on one line.
impl fmt::Display for OwnerInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", escaped(&self.host), self.pid)?;
        match &self.label {
            Some(label) => write!(f, " ({})", escaped(label)),
            None => Ok(()),
        }
    }
}

impl From<OwnerInfo> for Vec<u8> {
    fn from(owner: OwnerInfo) -> Self {
        owner.to_bytes()
    }
}

/// Splits an owner's data into lines and payload; `None` for data in another format.
pub(crate) fn split(data: &[u8]) -> Option<(Vec<&str>, Option<&[u8]>)> {
    let end = data.windows(2).position(|two| two == b"\n\n");
    let (text, payload) = match end {
        Some(end) => (data.get(..end)?, data.get(end + 2..)),
        None => (data, None),
    };
    let text = std::str::from_utf8(text).ok()?;
    text.starts_with(OWNER)
        .then(|| (text.lines().collect(), payload))
}

/// The inverse of [`split`].
pub(crate) fn joined(lines: &[&str], payload: Option<&[u8]>) -> Vec<u8> {
    let mut data = lines.join("\n").into_bytes();
    if let Some(payload) = payload {
        data.extend_from_slice(b"\n\n");
        data.extend_from_slice(payload);
    }
    data
}

/// Escapes a text so that it fits on one line.
pub(crate) fn escaped(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => line.push_str("\\\\"),
            '\n' => line.push_str("\\n"),
            // A terminal that shows it would do something else.
            c if c.is_control() => line.extend(c.escape_unicode()),
            c => line.push(c),
        }
    }
    line
}

/// The inverse of [`escaped`]. Unknown escapes are kept as they are.
pub(crate) fn unescaped(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((plain, after)) = rest.split_once('\\') {
        text.push_str(plain);
        let (c, after) = if let Some(after) = after.strip_prefix('\\') {
            ('\\', after)
        } else if let Some(after) = after.strip_prefix('n') {
            ('\n', after)
        } else if let Some((c, after)) = numbered(after) {
            (c, after)
        } else {
            ('\\', after)
        };
        text.push(c);
        rest = after;
    }
    text + rest
}

fn numbered(after: &str) -> Option<(char, &str)> {
    let (digits, after) = after.strip_prefix("u{")?.split_once('}')?;
    let number = u32::from_str_radix(digits, 16).ok()?;
    Some((char::from_u32(number)?, after))
}

/// The prefix of the first line, which identifies the format.
const OWNER: &str = "owner: ";
const LABEL: &str = "label: ";

#[cfg(test)]
mod tests;
