//! Damaged input makes no command panic: lines of scripts, operations of transactions, and exported directories.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use zk_sim::{Ensemble, SimListener};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn no_damaged_line_or_operation_makes_zk_panic(
        lines in vec(damaged(LINES), 1..40),
        operations in vec(damaged(OPERATIONS), 1..40),
    ) {
        let zk = Zk::start();
        zk.write("operations", operations.join("\n").as_bytes());
        zk.write("script", (lines.join("\n") + "\ntxn --file operations").as_bytes());
        zk.run(&["run", "--keep-going", "script"]);
    }

    #[test]
    fn no_damaged_directory_makes_zk_panic(changes in vec(change(), 1..4)) {
        let zk = Zk::start();
        zk.write("script", SCRIPT);
        assert_eq!(zk.run(&["run", "script"]), 0);
        let mut files = Vec::new();
        list(&zk.directory.path().join("exported"), &mut files).unwrap();
        for (file, change) in changes {
            // An earlier change may have removed or renamed it.
            let file: &PathBuf = file.get(&files);
            drop(apply(file, &change));
        }
        zk.run(&["import", "exported", "/copy"]);
    }
}

/// A shell with an ensemble and a directory of its own.
struct Zk {
    directory: TempDir,
    listener: SimListener,
    _runtime: Runtime,
}

impl Zk {
    fn start() -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let ensemble = runtime.block_on(async { Ensemble::builder().servers(1).build() });
        Self {
            directory: tempfile::tempdir().expect("a directory"),
            listener: runtime.block_on(ensemble.listen()).expect("a free port"),
            _runtime: runtime,
        }
    }

    fn write(&self, name: &str, text: &[u8]) {
        fs::write(self.directory.path().join(name), text).expect("it is writable");
    }

    /// Runs `zk` and returns its exit status.
    fn run(&self, arguments: &[&str]) -> i32 {
        let output = Command::new(env!("CARGO_BIN_EXE_zk"))
            .args(["--connect", &self.listener.connect_string()])
            .args(arguments)
            .env_remove("ZK_AUTH")
            .current_dir(&self.directory)
            .stdin(Stdio::null())
            .output()
            .expect("zk starts");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!error.contains("panicked"), "{error}");
        let status = output.status.code().expect("it ended by itself");
        assert!(status < 3, "exit {status}: {error}");
        status
    }
}

/// One of the samples, mostly with a few other characters in it.
fn damaged(samples: &'static [&'static str]) -> impl Strategy<Value = String> {
    let edits = vec((any::<Index>(), any::<char>(), any::<bool>()), 0..3);
    (select(samples), edits).prop_map(|(sample, edits)| {
        let mut text: Vec<char> = sample.chars().collect();
        for (at, other, is_insertion) in edits {
            let at = at.index(text.len());
            if is_insertion {
                text.insert(at, other);
            } else {
                text[at] = other;
            }
        }
        text.into_iter().collect()
    })
}

#[derive(Debug, Clone)]
enum Change {
    Byte(Index, u8),
    Cut(Index),
    Removal,
    Name(String),
}

fn change() -> impl Strategy<Value = (Index, Change)> {
    let change = prop_oneof![
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Change::Byte(at, byte)),
        any::<Index>().prop_map(Change::Cut),
        Just(Change::Removal),
        "[=%.0-9A-Za-z ]{1,6}".prop_map(Change::Name),
    ];
    (any::<Index>(), change)
}

fn apply(file: &Path, change: &Change) -> io::Result<()> {
    match change {
        Change::Byte(at, byte) => {
            let mut data = fs::read(file)?;
            data.insert(at.index(data.len() + 1), *byte);
            fs::write(file, data)
        }
        Change::Cut(at) => {
            let data = fs::read(file)?;
            fs::write(file, &data[..at.index(data.len() + 1)])
        }
        Change::Removal => fs::remove_file(file),
        Change::Name(name) => fs::rename(file, file.with_file_name(name)),
    }
}

/// Lists the files and directories below a directory, in an order that does not depend on the disk.
fn list(directory: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    let entries: io::Result<Vec<_>> = fs::read_dir(directory)?.collect();
    let mut paths: Vec<_> = entries?.iter().map(fs::DirEntry::path).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            list(&path, found)?;
        }
        found.push(path);
    }
    Ok(())
}

const LINES: &[&str] = &[
    " ",
    "# comment",
    "create -p /a/b 'one two'",
    "set -v 0 /a \"x \\\" y\"",
    "get --json /a",
    "ls -R /",
    "stat /a/../b",
    "find / --name 'a*' --older 3d",
    "grep -i '^on[a-e]' /",
    "setacl /a world:anyone:r,digest:u:p:cdrwa",
    "txn 'check -v 1 /a' 'create -e -s /a/n \"\"' 'delete /b'",
    "zk --timeout 2s help set",
    "cd a",
];
const OPERATIONS: &[&str] = &[
    " ",
    "# comment",
    "check -v 1 /a",
    "create -e -s /a/n- 'x y'",
    "set -v 0 /a \"\\\\\"",
    "delete /b # why",
];
const SCRIPT: &[u8] =
    b"create /a one\ncreate '/a/b c' two\ncreate /a/%= ''\ncreate '/a/b c/..d' -1\n\
    setacl '/a/b c' world:anyone:rcd\nexport /a exported/\n";
