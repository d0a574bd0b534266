//! Keeps the session of an ephemeral node open until a signal or the end of input.

use std::io::IsTerminal;

use tokio::io::AsyncReadExt;
use tokio::signal::unix::SignalKind;
use tokio::signal::unix::signal;
use zk_core::Session;

use crate::failure::Failure;
use crate::failure::tell;

/// Resolves on Ctrl-C, SIGTERM, SIGHUP or, unless it is a terminal or was read already, the end of standard input.
///
/// A terminal is not read: the program may be in the background, where reading stops it and would cost the session.
pub(crate) async fn until_released(session: &Session, is_stdin_read: bool) -> Result<(), Failure> {
    let listen = |kind| {
        signal(kind)
            .map_err(|error| Failure::operation(format!("cannot wait for signals: {error}"), None))
    };
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    let mut hangup = listen(SignalKind::hangup())?;
    let watches_stdin = !is_stdin_read && !std::io::stdin().is_terminal();
    note(if watches_stdin {
        "until Ctrl-C, SIGTERM or the end of standard input"
    } else {
        "until Ctrl-C or SIGTERM"
    });
    tokio::select! {
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
        _ = hangup.recv() => Ok(()),
        () = end_of_stdin(), if watches_stdin => Ok(()),
        _ = session.lost() => Err(Failure::operation("the session is lost, and its ephemeral node with it", None)),
    }
}

async fn end_of_stdin() {
    let mut stdin = tokio::io::stdin();
    let mut scrap = [0; 1024];
    // An unreadable input counts as ended.
    while stdin.read(&mut scrap).await.is_ok_and(|read| read > 0) {}
}

/// Writes to standard error, because standard output contains only results.
fn note(until: &str) {
    tell(&format!(
        "the node is ephemeral: keeping its session {until}\n"
    ));
}
