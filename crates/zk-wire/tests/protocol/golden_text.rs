//! Replies as the golden files have them: with the numbers and the data that were sent.

use std::time::SystemTime;

use zk_wire::{MultiResult, NodeData, ReadResult, Reply, SessionId, Stat};

/// Returns the debug output of a reply, in which each stat has the numbers of the protocol, and data its bytes.
pub(crate) fn text_of(reply: &Reply) -> String {
    let (stats, data) = parts(reply);
    let mut text = format!("{reply:?}");
    for stat in stats {
        text = text.replace(&format!("{stat:?}"), &numbers_of(stat));
    }
    for data in data {
        let bytes = data.clone().into_inner();
        text = text.replacen(&format!("data: {data:?}"), &format!("data: {bytes:?}"), 1);
    }
    text
}

/// Returns the stats and the data in a reply, in their order.
fn parts(reply: &Reply) -> (Vec<&Stat>, Vec<&NodeData>) {
    let (mut stats, mut contents) = (Vec::new(), Vec::new());
    match reply {
        Reply::Stat(stat) | Reply::Acl { stat, .. } => stats.push(stat),
        Reply::Data { data, stat } => {
            contents.push(data);
            stats.push(stat);
        }
        Reply::Created { stat, .. } | Reply::Children { stat, .. } => stats.extend(stat),
        Reply::Multi(Ok(results)) => stats.extend(results.iter().filter_map(stat_of)),
        Reply::MultiRead(reads) => {
            for read in reads {
                if let Ok(ReadResult::Data { data, stat }) = read {
                    contents.push(data);
                    stats.push(stat);
                }
            }
        }
        Reply::Empty
        | Reply::Multi(Err(_))
        | Reply::Paths(_)
        | Reply::Count(_)
        | Reply::Identities(_)
        | Reply::Token(_) => {}
    }
    (stats, contents)
}

fn stat_of(result: &MultiResult) -> Option<&Stat> {
    match result {
        MultiResult::Created { stat, .. } => stat.as_ref(),
        MultiResult::Set(stat) => Some(stat),
        MultiResult::Deleted | MultiResult::Checked => None,
    }
}

/// Returns the numbers of a stat in the order in which they were sent.
fn numbers_of(stat: &Stat) -> String {
    let Stat {
        czxid,
        mzxid,
        pzxid,
        ctime,
        mtime,
        version,
        cversion,
        aversion,
        ephemeral_owner,
        data_length,
        num_children,
    } = stat;
    let [ctime, mtime] = [ctime, mtime].map(|time| millis_of(*time));
    let ephemeral_owner = ephemeral_owner.map_or(0, SessionId::as_i64);
    format!(
        "Stat {{ czxid: {czxid}, mzxid: {mzxid}, ctime: {ctime}, mtime: {mtime}, version: {version}, \
         cversion: {cversion}, aversion: {aversion}, ephemeral_owner: {ephemeral_owner}, \
         data_length: {data_length}, num_children: {num_children}, pzxid: {pzxid} }}"
    )
}

fn millis_of(time: SystemTime) -> u128 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.expect("no node is so old").as_millis()
}
