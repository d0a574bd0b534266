//! Tests on a simulated ensemble.

use zk_sim::{Ensemble, Script, Scripted};

/// Returns the names of a node's children in order, as the leader has them; none if there is no such node.
pub fn children(ensemble: &Ensemble, path: &str) -> Vec<String> {
    let tree = ensemble.tree();
    let node = tree.node(path);
    node.map_or_else(Vec::new, |node| {
        node.children().map(str::to_owned).collect()
    })
}

/// Returns the paths of all nodes that belong to a session, as the leader has them.
pub fn ephemerals(ensemble: &Ensemble) -> Vec<String> {
    let tree = ensemble.tree();
    let owned = tree.nodes().filter(|(_, node)| node.owner().is_some());
    owned.map(|(path, _)| path.to_string()).collect()
}

/// Returns the data of a node as the leader has it, as text; `None` if there is no such node.
///
/// # Panics
///
/// If the data is no text.
pub fn data_of(ensemble: &Ensemble, path: &str) -> Option<String> {
    let tree = ensemble.tree();
    let data = tree.node(path)?.data().to_vec();
    Some(String::from_utf8(data).expect("it is text"))
}

/// Loses the reply to a request, or else the request.
pub fn lose(script: Script, is_reply: bool) -> Scripted {
    if is_reply {
        script.lose_reply()
    } else {
        script.lose_request()
    }
}
