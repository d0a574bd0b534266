//! Writes results to standard output: text as ZooKeeper's own shell prints it, or JSON.

use std::borrow::Cow;
use std::cell::Cell;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant, SystemTime};

use anstream::{AutoStream, ColorChoice};
use anstyle::AnsiColor;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::{Value, json};
use zk_core::Stat;

use crate::date::java_date;
use crate::escape;
use crate::failure::{Failure, write_stderr};
use crate::file_io::blocking;

/// Where results go, and in which form.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    is_json: bool,
    is_terminal: bool,
    has_colours: bool,
    /// How long the readers took.
    waited: Cell<Duration>,
}

/// How a part of a text is shown where there are colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    /// The path of a node, in front of what is said about it.
    Path,
    /// A node with children.
    Parent,
    /// An ephemeral node.
    Ephemeral,
    /// A text that was searched for.
    Match,
    Added,
    Changed,
    Removed,
}

impl Output {
    /// Creates the output of a program whose results are JSON, or text.
    pub(crate) fn new(is_json: bool) -> Self {
        Self {
            is_json,
            is_terminal: io::stdout().is_terminal(),
            has_colours: AutoStream::choice(&io::stdout()) != ColorChoice::Never,
            waited: Cell::default(),
        }
    }

    /// Returns whether results are JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.is_json
    }

    /// Returns whether results have colours: on a terminal, unless the environment says otherwise.
    pub(crate) fn has_colours(&self) -> bool {
        self.has_colours
    }

    /// Returns an escaped text in a style, or as it is where there are no colours.
    pub(crate) fn styled(&self, style: Style, text: &str) -> String {
        let style = style.of_terminal();
        if self.has_colours && !style.is_plain() {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }

    /// Prints a result: a text that ends with a line break, or one JSON document on a line.
    ///
    /// Names and data in the text have to be [escaped](escape).
    pub(crate) async fn result<D: Serialize>(
        &self,
        text: impl FnOnce() -> String,
        document: impl FnOnce() -> D,
    ) -> Result<(), Failure> {
        let bytes = if self.is_json {
            json_line(&document())
        } else {
            text().into_bytes()
        };
        self.print(bytes).await
    }

    /// Prints several [results](Self::result) at once.
    pub(crate) async fn results<T>(
        &self,
        items: &[T],
        text: impl Fn(&T) -> String,
        document: impl Fn(&T) -> Value,
    ) -> Result<(), Failure> {
        let bytes = items.iter().flat_map(|item| {
            if self.is_json {
                json_line(&document(item))
            } else {
                text(item).into_bytes()
            }
        });
        self.print(bytes.collect::<Vec<_>>()).await
    }

    /// Writes to standard output, and counts the time that its reader takes.
    pub(crate) async fn print(&self, bytes: impl Into<Vec<u8>>) -> Result<(), Failure> {
        let began = Instant::now();
        let printed = print(bytes).await;
        self.add_waited(began.elapsed());
        printed
    }

    /// Counts a time that a reader has taken.
    pub(crate) fn add_waited(&self, time: Duration) {
        self.waited.set(self.waited.get() + time);
    }

    /// Returns how long the readers of the output took so far.
    pub(crate) fn waited(&self) -> Duration {
        self.waited.get()
    }

    /// Prints what is worth knowing beside the results, to standard error.
    pub(crate) async fn note(&self, text: &str) {
        self.remark("note", text).await;
    }

    /// Prints what may be wrong although the command works, to standard error.
    pub(crate) async fn warning(&self, text: &str) {
        self.remark("warning", text).await;
    }

    /// Prints a failure of a command that others follow.
    pub(crate) async fn failure(&self, failure: &Failure) {
        self.print_beside(failure.lines(self.is_json)).await;
    }

    /// Prints several warnings at once. It blocks until they are read.
    pub(crate) fn warn_blocking(&self, texts: impl Iterator<Item = String>) {
        let lines = texts.map(|text| self.remark_line("warning", &text));
        write_stderr(&lines.collect::<String>());
    }

    async fn remark(&self, kind: &str, text: &str) {
        self.print_beside(self.remark_line(kind, text)).await;
    }

    fn remark_line(&self, kind: &str, text: &str) -> String {
        if self.is_json {
            let document = format!("{}\n", json!({ kind: text }));
            escape::json(&document).into_owned()
        } else {
            format!("{kind}: {}\n", escape::block(text))
        }
    }

    /// Writes to standard error on another thread, as [`print()`] does, and counts the time that its reader takes.
    pub(crate) async fn print_beside(&self, text: String) {
        let began = Instant::now();
        blocking(move || write_stderr(&text)).await;
        self.add_waited(began.elapsed());
    }

    /// Prints the data of a node and a line break.
    pub(crate) async fn data(&self, data: &[u8]) -> Result<(), Failure> {
        let mut shown = self.shown(data).into_owned();
        shown.push(b'\n');
        self.print(shown).await
    }

    /// Returns data as it is printed: on a terminal without what would control it, elsewhere as it is.
    pub(crate) fn shown<'a>(&self, data: &'a [u8]) -> Cow<'a, [u8]> {
        if self.is_terminal {
            Cow::Owned(escape::bytes(data).into_bytes())
        } else {
            Cow::Borrowed(data)
        }
    }
}

impl Style {
    /// Returns how the name of a node is shown.
    pub(crate) fn of(stat: &Stat) -> Self {
        if stat.ephemeral_owner.is_some() {
            Self::Ephemeral
        } else if stat.num_children > 0 {
            Self::Parent
        } else {
            Self::Plain
        }
    }

    fn of_terminal(self) -> anstyle::Style {
        let colour = |colour: AnsiColor| colour.on_default();
        match self {
            Self::Plain => anstyle::Style::new(),
            Self::Path => colour(AnsiColor::Magenta),
            Self::Parent => colour(AnsiColor::Blue).bold(),
            Self::Ephemeral | Self::Changed => colour(AnsiColor::Yellow),
            Self::Match => colour(AnsiColor::Red).bold(),
            Self::Added => colour(AnsiColor::Green),
            Self::Removed => colour(AnsiColor::Red),
        }
    }
}

/// The eleven lines of a stat.
pub(crate) fn stat(stat: &Stat) -> String {
    let owner = stat.ephemeral_owner.map_or(0, zk_core::SessionId::as_i64);
    let lines = [
        ("cZxid", format!("{:#x}", stat.czxid)),
        ("ctime", java_date(stat.ctime)),
        ("mZxid", format!("{:#x}", stat.mzxid)),
        ("mtime", java_date(stat.mtime)),
        ("pZxid", format!("{:#x}", stat.pzxid)),
        ("cversion", stat.cversion.to_string()),
        ("dataVersion", stat.version.to_string()),
        ("aclVersion", stat.aversion.to_string()),
        ("ephemeralOwner", format!("{owner:#x}")),
        ("dataLength", stat.data_length.to_string()),
        ("numChildren", stat.num_children.to_string()),
    ];
    lines
        .map(|(name, value)| format!("{name} = {value}\n"))
        .concat()
}

/// The JSON document of a stat: zxids and sessions as text in hexadecimal digits, because they do not fit into the
/// numbers of every JSON reader; times in milliseconds since 1970.
pub(crate) fn stat_json(stat: &Stat) -> Value {
    json!({
        "czxid": format!("{:#x}", stat.czxid),
        "mzxid": format!("{:#x}", stat.mzxid),
        "pzxid": format!("{:#x}", stat.pzxid),
        "ctime": millis(stat.ctime),
        "mtime": millis(stat.mtime),
        "version": stat.version,
        "cversion": stat.cversion,
        "aversion": stat.aversion,
        "ephemeral_owner": stat.ephemeral_owner.map(|owner| owner.to_string()),
        "data_length": stat.data_length,
        "num_children": stat.num_children,
    })
}

/// Milliseconds since 1970.
pub(crate) fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

/// Adds the data of a node to a JSON document: as text if it is UTF-8, otherwise in base64; `encoding` says which.
pub(crate) fn add_data(document: &mut Value, data: &[u8]) {
    let (encoding, text) = match std::str::from_utf8(data) {
        Ok(text) => ("utf8", text.to_owned()),
        Err(_) => ("base64", STANDARD.encode(data)),
    };
    document["encoding"] = encoding.into();
    document["data"] = text.into();
}

/// Returns a document on a line.
fn json_line(document: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_string(document).expect("its keys are texts");
    line.push('\n');
    match escape::json(&line) {
        Cow::Borrowed(_) => line.into_bytes(),
        Cow::Owned(escaped) => escaped.into_bytes(),
    }
}

/// The names of children on one line, in order.
pub(crate) fn names(names: &[String]) -> String {
    // In one text: a reply may contain millions of names.
    let mut shown = "[".to_owned();
    for (at, name) in names.iter().enumerate() {
        shown.push_str(if at == 0 { "" } else { ", " });
        shown.push_str(&escape::line(name));
    }
    shown + "]\n"
}

/// Prints one JSON document on a line.
#[cfg(feature = "top")]
pub(crate) async fn print_json(document: &Value) -> Result<(), Failure> {
    print(json_line(document)).await
}

/// Writes to standard output, on another thread: it takes as long as the reader does, and the session must live meanwhile.
///
/// If the caller is dropped, what was begun is still written, before anything that is printed later.
pub(crate) async fn print(bytes: impl Into<Vec<u8>>) -> Result<(), Failure> {
    let bytes = bytes.into();
    if bytes.is_empty() {
        return Ok(());
    }
    let write = move || {
        let mut stdout = io::stdout().lock();
        stdout.write_all(&bytes).and_then(|()| stdout.flush())
    };
    match blocking(write).await {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failure::reader_gone()),
        Err(error) => Err(Failure::operation(
            format!("cannot write to standard output: {error}"),
            None,
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_printed_in_brackets() {
        assert_eq!(
            names(&["a".to_owned(), "b\u{202e}".to_owned()]),
            "[a, b\\u{202e}]\n"
        );
        assert_eq!(names(&[]), "[]\n");
    }

    #[test]
    fn data_is_text_in_json_only_if_no_byte_is_lost() {
        let of = |data: &[u8]| {
            let mut document = json!({});
            add_data(&mut document, data);
            document.to_string()
        };
        assert_eq!(of(b""), r#"{"data":"","encoding":"utf8"}"#);
        assert_eq!(
            of("grö\n".as_bytes()),
            r#"{"data":"grö\n","encoding":"utf8"}"#
        );
        assert_eq!(of(b"\xff\x00"), r#"{"data":"/wA=","encoding":"base64"}"#);
    }
}
