//! Parses the replies of the `AdminServer`, which are JSON over HTTP.
//!
//! Pure: no I/O and no clock.

use std::collections::BTreeMap;

use serde_json::Value;

use super::four_letter::{Refusal, figures, host_and_port, monitor, release};
use super::sample::{Connection, Figures, Reading};
use super::word::Word;

/// Returns the request for a word, without a body.
pub(crate) fn request(word: Word, host: &str) -> String {
    // A server that is asked with HTTP/1.0 closes the connection at the end of the reply, and sends no chunks.
    let command = word.admin_command();
    format!("GET /commands/{command} HTTP/1.0\r\nHost: {host}\r\nAccept: application/json\r\n\r\n")
}

/// Parses a reply, its head included.
pub(crate) fn parse(word: Word, reply: &[u8]) -> Result<Reading, Refusal> {
    let head_end = reply
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .ok_or(Refusal::UnknownWord)?;
    let (head, body) = (&reply[..head_end], &reply[head_end + 4..]);
    let mut status = head.split(|byte| *byte == b' ');
    if !head.starts_with(b"HTTP/") || status.nth(1) != Some(b"200") {
        return Err(Refusal::UnknownWord);
    }
    let document: Value = serde_json::from_slice(body).map_err(|_| Refusal::UnknownWord)?;
    if let Some(error) = document.get("error").and_then(Value::as_str) {
        return Err(if error.contains("not currently serving") {
            Refusal::NoQuorum
        } else {
            Refusal::UnknownWord
        });
    }
    match word {
        Word::Srvr => figures(server_stats(&document)),
        Word::Mntr => figures(all(&document)),
        Word::Conf => figures(Figures {
            max_connections_per_host: document.get("max_client_cnxns").and_then(Value::as_u64),
            ..Figures::default()
        }),
        Word::Dirs => figures(Figures {
            snapshot_bytes: document.get("datadir_size").and_then(Value::as_u64),
            log_bytes: document.get("logdir_size").and_then(Value::as_u64),
            ..Figures::default()
        }),
        Word::Cons => connections(&document).map(Reading::Connections),
        Word::Wchp => {
            let paths = object(&document, "path_to_session_ids")?;
            let watches = paths.map(|(path, ids)| {
                let ids = ids.as_array().into_iter().flatten();
                (path.clone(), ids.filter_map(session).collect())
            });
            Ok(Reading::Watches(watches.collect()))
        }
        Word::Dump => {
            let sessions = object(&document, "session_id_to_ephemeral_paths")?;
            let ephemerals = sessions.filter_map(|(id, paths)| {
                let paths = paths.as_array().into_iter().flatten();
                let paths = paths.filter_map(|path| path.as_str().map(str::to_owned));
                Some((id.parse::<i64>().ok()?.cast_unsigned(), paths.collect()))
            });
            Ok(Reading::Ephemerals(ephemerals.collect::<BTreeMap<_, _>>()))
        }
    }
}

/// The values of the document, as `mntr` has them.
fn all(document: &Value) -> Figures {
    let mut figures = Figures::default();
    for (key, value) in document.as_object().into_iter().flatten() {
        monitor(&mut figures, key, &text(value));
    }
    figures
}

fn server_stats(document: &Value) -> Figures {
    let stats = document.get("server_stats").unwrap_or(&Value::Null);
    let mut figures = all(stats);
    let count = |value: Option<&Value>| value.and_then(Value::as_u64);
    figures.zxid = stats.get("last_processed_zxid").and_then(session);
    figures.connections = count(stats.get("num_alive_client_connections"));
    figures.nodes = count(document.get("node_count"));
    figures.version = document
        .get("version")
        .and_then(Value::as_str)
        .and_then(release);
    if document.get("read_only") == Some(&Value::Bool(true)) {
        figures.role = Some("read-only".to_owned());
    }
    figures
}

fn connections(document: &Value) -> Result<Vec<Connection>, Refusal> {
    let lists = ["connections", "secure_connections"].map(|key| document.get(key));
    if lists.iter().all(Option::is_none) {
        return Err(Refusal::UnknownWord);
    }
    let all = lists
        .into_iter()
        .flatten()
        .filter_map(Value::as_array)
        .flatten();
    let connections = all.filter_map(|info| {
        let count = |key| info.get(key).and_then(Value::as_u64);
        let decimal = |key| info.get(key).and_then(Value::as_f64);
        let (host, port) = host_and_port(info.get("remote_socket_address")?.as_str()?)?;
        Some(Connection {
            host,
            port,
            session: info.get("session_id").and_then(session),
            outstanding: count("outstanding_requests").unwrap_or_default(),
            received: count("packets_received").unwrap_or_default(),
            established: count("established"),
            timeout: count("session_timeout"),
            last_operation: info
                .get("last_operation")
                .and_then(Value::as_str)
                .map(str::to_owned),
            average_latency: decimal("avg_latency"),
            max_latency: decimal("max_latency"),
        })
    });
    Ok(connections.collect())
}

fn object<'a>(
    document: &'a Value,
    key: &str,
) -> Result<impl Iterator<Item = (&'a String, &'a Value)> + use<'a>, Refusal> {
    let object = document.get(key).and_then(Value::as_object);
    object
        .map(serde_json::Map::iter)
        .ok_or(Refusal::UnknownWord)
}

/// Ids of sessions and transactions are 64 bits, which Java writes with a sign.
fn session(value: &Value) -> Option<u64> {
    value
        .as_u64()
        .or_else(|| value.as_i64().map(i64::cast_unsigned))
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
