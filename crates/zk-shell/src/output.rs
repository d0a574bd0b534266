//! Writes results to standard output: text as ZooKeeper's own shell prints it, or JSON.

use std::io;
use std::io::IsTerminal as _;
use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use serde_json::json;
use zk_core::Stat;

use crate::date::java_date;
use crate::escape;
use crate::failure::Failure;

/// Where results go, and in which form.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    is_json: bool,
    is_terminal: bool,
}

impl Output {
    /// Creates the output of a program whose results are JSON, or text.
    pub(crate) fn new(is_json: bool) -> Self {
        Self {
            is_json,
            is_terminal: io::stdout().is_terminal(),
        }
    }

    /// Returns whether results are JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.is_json
    }

    /// Prints a result: a text that ends with a line break, or one JSON document on a line.
    ///
    /// Names and data in the text have to be [escaped](escape).
    pub(crate) fn result(
        &self,
        text: impl FnOnce() -> String,
        document: impl FnOnce() -> Value,
    ) -> Result<(), Failure> {
        if self.is_json {
            print_json(&document())
        } else {
            print(text().as_bytes())
        }
    }

    /// Prints the data of a node and a line break: on a terminal without what would control it, elsewhere as it is.
    pub(crate) fn data(&self, data: &[u8]) -> Result<(), Failure> {
        let mut shown = if self.is_terminal {
            escape::bytes(data).into_bytes()
        } else {
            data.to_vec()
        };
        shown.push(b'\n');
        print(&shown)
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
    let millis = |time: std::time::SystemTime| {
        let since = time.duration_since(std::time::SystemTime::UNIX_EPOCH);
        since.map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
    };
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

/// Adds the data of a node to a JSON document: as text if it is UTF-8, otherwise in base64; `encoding` says which.
pub(crate) fn add_data(document: &mut Value, data: &[u8]) {
    let (encoding, text) = match std::str::from_utf8(data) {
        Ok(text) => ("utf8", text.to_owned()),
        Err(_) => ("base64", STANDARD.encode(data)),
    };
    document["encoding"] = encoding.into();
    document["data"] = text.into();
}

/// The names of children on one line, in order.
pub(crate) fn names(names: &[String]) -> String {
    let shown: Vec<_> = names.iter().map(|name| escape::line(name)).collect();
    format!("[{}]\n", shown.join(", "))
}

/// Prints one JSON document on a line.
pub(crate) fn print_json(document: &Value) -> Result<(), Failure> {
    print(format!("{document}\n").as_bytes())
}

/// Writes to standard output.
pub(crate) fn print(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
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

    // covers: O2
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
