//! Formats results as ZooKeeper's own shell prints them, and writes them to standard output.

use std::io;
use std::io::Write as _;

use zk_core::Stat;

use crate::date::java_date;
use crate::failure::Failure;

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

/// The names of children on one line, in order.
pub(crate) fn names(mut names: Vec<String>) -> String {
    names.sort_unstable();
    format!("[{}]\n", names.join(", "))
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
    fn names_are_sorted_in_brackets() {
        assert_eq!(names(vec!["b".to_owned(), "a".to_owned()]), "[a, b]\n");
        assert_eq!(names(Vec::new()), "[]\n");
    }
}
