//! Who an owner of a lock's node says it is: a text that people read in any shell, and that programs read back.
//!
//! Pure: no I/O and no clock.

use std::fmt;

/// Who holds a lock or waits for it, as it says of itself in the data of its node.
///
/// The data is text, a line each, and may be followed by an empty line and any bytes:
///
/// ```text
/// owner: build7/4242
/// label: nightly build
///
/// any bytes
/// ```
///
/// The first line has the host and the process. Other programs' nodes have other data: [`parse`](Self::parse) answers
/// `None` for it, and [`Contender::owner`](crate::Contender::owner) has the bytes.
///
/// How long the owner is in the queue is not in here: the ensemble says so, see
/// [`Contender::since`](crate::Contender::since).
/// Since when it holds the lock is on no node; to tell it would take a write for every grant.
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
    more: Option<Vec<u8>>,
}

impl OwnerInfo {
    /// Names a process, of any machine.
    pub fn new(host: impl Into<String>, pid: u32) -> Self {
        Self {
            host: host.into(),
            pid,
            label: None,
            more: None,
        }
    }

    /// Adds what the owner is for, in a few words.
    #[must_use]
    pub fn with_label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Adds any bytes.
    ///
    /// Every waiter reads those of the one before it: keep them short, and free of secrets.
    #[must_use]
    pub fn with_more(mut self, more: impl Into<Vec<u8>>) -> Self {
        self.more = Some(more.into());
        self
    }

    /// Reads the data of a node, or answers `None` for data in another form.
    ///
    /// Lines that it does not know are skipped.
    pub fn parse(data: &[u8]) -> Option<Self> {
        let (lines, more) = split(data)?;
        let mut lines = lines.into_iter();
        let (host, pid) = lines.next()?.strip_prefix(OWNER)?.rsplit_once('/')?;
        let mut owner = Self {
            more: more.map(<[u8]>::to_vec),
            ..Self::new(unescaped(host), pid.parse().ok()?)
        };
        owner.label = lines
            .find_map(|line| line.strip_prefix(LABEL))
            .map(unescaped);
        Some(owner)
    }

    /// Writes it as the data of a node.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut text = format!("{OWNER}{}/{}", escaped(&self.host), self.pid);
        if let Some(label) = &self.label {
            text.push('\n');
            text.push_str(LABEL);
            text.push_str(&escaped(label));
        }
        joined(&[&text], self.more.as_deref())
    }

    /// Returns the name of the machine.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the id of the process there.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns what the owner is for, in a few words.
    pub fn label(&self) -> Option<&str> {
        self.label.as_deref()
    }

    /// Returns the bytes that come after the text.
    pub fn more(&self) -> Option<&[u8]> {
        self.more.as_deref()
    }
}

/// The host, the process and the label, in a line.
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

/// The lines of an owner's data, and what comes after them; `None` for data in another form.
pub(crate) fn split(data: &[u8]) -> Option<(Vec<&str>, Option<&[u8]>)> {
    let end = data.windows(2).position(|two| two == b"\n\n");
    let (text, more) = match end {
        Some(end) => (data.get(..end)?, data.get(end + 2..)),
        None => (data, None),
    };
    let text = std::str::from_utf8(text).ok()?;
    text.starts_with(OWNER)
        .then(|| (text.lines().collect(), more))
}

/// The reverse of [`split`].
pub(crate) fn joined(lines: &[&str], more: Option<&[u8]>) -> Vec<u8> {
    let mut data = lines.join("\n").into_bytes();
    if let Some(more) = more {
        data.extend_from_slice(b"\n\n");
        data.extend_from_slice(more);
    }
    data
}

/// The text on one line, whatever is in it.
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

/// The reverse of [`escaped`]; what it never writes is taken as it stands.
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

/// What the first line begins with, and by which the form is known.
const OWNER: &str = "owner: ";
const LABEL: &str = "label: ";

#[cfg(test)]
mod tests;
