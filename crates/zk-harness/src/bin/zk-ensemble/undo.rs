//! Prints the command that undoes a fault.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::output::note;
use crate::store::Store;

/// The beginning of the command: the program and its options.
pub(crate) struct Undo {
    prefix: String,
}

impl Undo {
    pub(crate) fn new(store: &Store, name: &str) -> Self {
        let called = std::env::var(CALLED).ok();
        let own = std::env::args_os().next();
        let dir = store.is_given().then(|| store.root().to_owned());
        Self {
            prefix: prefix(called, own, dir, name, std::env::var(NAME).ok().as_deref()),
        }
    }

    /// Prints the command.
    pub(crate) fn print(&self, command: &[&str], rest: &[&str]) {
        let words = [command, rest].concat().join(" ");
        note(&format!("undo: {} {words}", self.prefix));
    }
}

/// Returns the program and the options that select the same ensemble.
fn prefix(
    called: Option<String>,
    own: Option<OsString>,
    dir: Option<PathBuf>,
    name: &str,
    environment: Option<&str>,
) -> String {
    let own = || own.map(|own| own.to_string_lossy().into_owned());
    // The name of a wrapper is a command of several words, which needs no quotes.
    let mut text = called
        .or_else(|| own().map(|own| quoted(&own)))
        .unwrap_or_else(|| "zk-ensemble".to_owned());
    if let Some(dir) = dir {
        text.extend([" --dir ", &quoted(&dir.to_string_lossy())]);
    }
    if environment.unwrap_or(DEFAULT) != name {
        text.extend([" --name ", name]);
    }
    text
}

/// Quotes a word for the shell.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./=:,+%@".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Set by a program that runs this one under another command, such as `cargo xtask ensemble`.
const CALLED: &str = "ZK_ENSEMBLE_CALLED";
const NAME: &str = "ZK_ENSEMBLE";
const DEFAULT: &str = "default";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_printed_command_can_be_run() {
        let own = || Some(OsString::from("target/debug/zk-ensemble"));
        assert_eq!(
            prefix(
                Some("cargo xtask ensemble".into()),
                own(),
                None,
                DEFAULT,
                None
            ),
            "cargo xtask ensemble"
        );
        assert_eq!(
            prefix(None, own(), Some("/e".into()), "two", None),
            "target/debug/zk-ensemble --dir /e --name two"
        );
        assert_eq!(
            prefix(
                None,
                Some("/o'b/zk-ensemble".into()),
                Some("/my ensembles".into()),
                DEFAULT,
                None
            ),
            r"'/o'\''b/zk-ensemble' --dir '/my ensembles'"
        );
        // With ZK_ENSEMBLE in the environment only another name is printed.
        assert_eq!(
            prefix(None, own(), None, "two", Some("two")),
            "target/debug/zk-ensemble"
        );
        assert_eq!(
            prefix(None, None, None, DEFAULT, Some("two")),
            "zk-ensemble --name default"
        );
    }
}
