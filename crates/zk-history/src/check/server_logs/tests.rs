use super::*;

/// Builds a history with acknowledged writes of these transactions.
fn history(zxids: &[u64]) -> History {
    let begin = r#"{"type":"begin","proc":"a","t_mono_ns":0,"version":1}"#.to_owned();
    let calls = zxids.iter().enumerate().map(|(at, zxid)| {
        let (id, from, to) = (at + 1, at * 20 + 10, at * 20 + 20);
        format!(
            r#"
{{"type":"invoke","proc":"a","t_mono_ns":{from},"id":{id},"op":"acquire","path":"/x"}}
{{"type":"return","proc":"a","t_mono_ns":{to},"id":{id},"outcome":"ok","token":{zxid}}}"#
        )
    });
    let text: String = std::iter::once(begin).chain(calls).collect();
    History::parse([("history.jsonl", text.as_str())]).unwrap()
}

fn logs(texts: &[(u64, &str)]) -> ServerLogs {
    let mut logs = ServerLogs::default();
    logs.add(texts.iter().map(|(id, text)| (*id, (*text).to_owned())));
    logs
}

fn said(texts: &[(u64, &str)], acknowledged: &[u64]) -> Vec<String> {
    let verdict = logs(texts).verdict(&history(acknowledged)).unwrap();
    let expected = if verdict.violations.is_empty() {
        Judgement::Valid
    } else {
        Judgement::RolledBack
    };
    assert_eq!(verdict.judgement, expected);
    let sentences = verdict.violations.into_iter().map(|found| found.sentence);
    sentences.collect()
}

/// Server 2 is elected with a log that is shorter than that of server 3, as a follower that took the new epoch before
/// it had the leader's transactions.
const SHORT: &str = "\
FastLeaderElection - New election. My id = 2, proposed zxid=0x100000005
Leader - LEADING - LEADER ELECTION TOOK - 12 MS
LearnerHandler - Synchronizing with Learner sid: 3 maxCommittedLog=0x100000005 minCommittedLog=0x100000001 lastProcessedZxid=0x100000005 peerLastZxid=0x1000000a8
Leader - Have quorum of supporters, sids: [[2, 3]]; starting up and setting last processed zxid: 0x200000000
";
const CUT: &str = "Learner - Truncating log to get in sync with the leader 0x100000005\n";

#[test]
fn lines_are_read_as_releases_from_3_5_to_3_9_write_them() {
    let cases = [
        (
            "2026-11-22T12:47:19.123 [QuorumPeer[myid=2](plain=127.0.0.1:21811)(secure=disabled)] INFO \
             org.apache.zookeeper.server.quorum.FastLeaderElection - New election. My id = 2, proposed zxid=0x10000000a",
            Some(Event::Election {
                last: 0x1_0000_000a,
            }),
        ),
        (
            "2026-11-22 12:47:19,123 [myid:] - INFO  [QuorumPeer[myid=1]:o.a.z.s.q.FastLeaderElection@946] - New \
             election. My id = 1, proposed zxid=0x0",
            Some(Event::Election { last: 0 }),
        ),
        (
            "INFO Leader - LEADING - LEADER ELECTION TOOK - 207 MS",
            Some(Event::Leading),
        ),
        (
            "INFO Follower - FOLLOWING - LEADER ELECTION TOOK - 7 MS",
            Some(Event::Following),
        ),
        (
            "INFO Observer - OBSERVING - LEADER ELECTION TOOK - 7 MS",
            Some(Event::Following),
        ),
        (
            "INFO LearnerHandler - Synchronizing with Learner sid: 3 maxCommittedLog=0x100000007 \
             minCommittedLog=0x100000001 lastProcessedZxid=0x100000005 peerLastZxid=0x1000000a8",
            Some(Event::Synchronizing {
                peer: 3,
                own: 0x1_0000_0007,
                theirs: 0x1_0000_00a8,
            }),
        ),
        (
            "INFO LearnerHandler - Synchronizing with Follower sid: 12 maxCommittedLog=0x0 minCommittedLog=0x0 \
             lastProcessedZxid=0x100000005 peerLastZxid=0x0",
            Some(Event::Synchronizing {
                peer: 12,
                own: 0x1_0000_0005,
                theirs: 0,
            }),
        ),
        (
            "INFO LearnerHandler - Sending TRUNC zxid=0x100000005  for peer sid: 3",
            Some(Event::Truncation {
                peer: 3,
                to: 0x1_0000_0005,
            }),
        ),
        (
            "DEBUG LearnerHandler - Sending TRUNC to follower zxidToSend=0x100000005 for peer sid:3",
            Some(Event::Truncation {
                peer: 3,
                to: 0x1_0000_0005,
            }),
        ),
        (
            "INFO Leader - Have quorum of supporters, sids: [[1, 2]]; starting up and setting last processed zxid: \
             0x200000000",
            Some(Event::Established {
                zxid: 0x2_0000_0000,
            }),
        ),
        (
            "WARN Learner - Truncating log to get in sync with the leader 0x100000005",
            Some(Event::Truncating),
        ),
        (
            "INFO LearnerHandler - Sending DIFF zxid=0x100000005 for peer sid: 3",
            None,
        ),
        (
            "WARN LearnerHandler - Cannot send TRUNC to peer sid: 3 peer zxid is from different epoch",
            None,
        ),
        ("New election. My id = 2, proposed zxid=", None),
        (
            "Synchronizing with Learner sid: 3 maxCommittedLog=0x1",
            None,
        ),
        ("Sending TRUNC zxid=0x1 for peer sid: ", None),
        ("Have quorum of supporters", None),
        ("", None),
    ];
    for (line, expected) in cases {
        assert_eq!(event(line), expected, "{line}");
    }
}

#[test]
fn an_acknowledged_write_that_is_cut_off_is_a_rollback() {
    let texts = [(2, SHORT), (3, CUT)];
    assert_eq!(
        said(&texts, &[0x1_0000_0004, 0x1_0000_00a8]),
        [
            "server 3 was ordered by server 2 to truncate its log to 0x100000005 although 0x1000000a8 had been \
             acknowledged",
            "server 2 took the lead with a log that ends at 0x100000005 although 0x1000000a8 had been acknowledged"
        ]
    );
    let verdict = logs(&texts).verdict(&history(&[0x1_0000_00a8])).unwrap();
    assert_eq!(verdict.violations[0].evidence.len(), 1);
    assert!(
        verdict.notes[0].contains("docs/compatibility.md"),
        "{verdict}"
    );
}

#[test]
fn a_cut_is_a_rollback_from_the_first_acknowledged_write_on() {
    let texts = [(2, SHORT), (3, CUT)];
    // None acknowledged, the last kept, the first lost, the last lost, one that no server had.
    for (acknowledged, found) in [
        (vec![], 0),
        (vec![0x1_0000_0005], 0),
        (vec![0x1_0000_0006], 2),
        (vec![0x1_0000_00a8], 2),
        (vec![0x1_0000_00a9], 1),
        (vec![0x2_0000_0001], 0),
        // Not transactions: a counter, a time-based id, the first zxid of an epoch.
        (vec![7], 0),
        (vec![1_790_000_000_000], 0),
        (vec![0x1_0000_0000], 0),
    ] {
        assert_eq!(
            said(&texts, &acknowledged).len(),
            found,
            "{acknowledged:x?}"
        );
    }
}

#[test]
fn a_truncation_in_the_midst_of_a_log_is_judged_by_where_it_was() {
    let text = SHORT.replace(
        "Leader - Have",
        "LearnerHandler - Sending TRUNC zxid=0x100000003  for peer sid: 3\nLeader - Have",
    );
    let text = text.replace("0x100000005", "0x1000000ff");
    let texts = [(2, text.as_str())];
    assert_eq!(
        said(&texts, &[0x1_0000_0004]),
        [
            "server 3 was ordered by server 2 to truncate its log to 0x100000003 although 0x100000004 had been acknowledged"
        ]
    );
    assert_eq!(said(&texts, &[0x1_0000_0003, 0x1_0000_00a9]), [""; 0]);
}

#[test]
fn a_repetition_by_a_live_leader_is_no_rollback() {
    // A follower returns with uncommitted proposals: it truncates them and receives them again.
    let text = "\
New election. My id = 1, proposed zxid=0x0
LEADING - LEADER ELECTION TOOK - 12 MS
Synchronizing with Learner sid: 2 maxCommittedLog=0x0 minCommittedLog=0x0 lastProcessedZxid=0x0 peerLastZxid=0x0
Have quorum of supporters, sids: [[1, 2]]; starting up and setting last processed zxid: 0x100000000
Synchronizing with Learner sid: 3 maxCommittedLog=0x10000000e minCommittedLog=0x100000001 lastProcessedZxid=0x10000000e peerLastZxid=0x100000010
Sending TRUNC zxid=0x10000000e  for peer sid: 3
";
    let verdict = logs(&[(1, text), (3, CUT)]);
    let verdict = verdict
        .verdict(&history(&[0x1_0000_000f, 0x1_0000_0010]))
        .unwrap();
    assert!(verdict.is_valid(), "{verdict}");
    assert_eq!(verdict.counts["truncations"], 1);
    assert_eq!(verdict.notes.len(), 1, "{verdict}");
}

#[test]
fn a_leader_without_a_quorum_is_judged_as_well() {
    let cut = SHORT.lines().take(3).collect::<Vec<_>>().join("\n");
    assert_eq!(said(&[(2, &cut)], &[0x1_0000_00a8]).len(), 1);
    assert_eq!(said(&[(2, &cut)], &[0x1_0000_00a9]), [""; 0]);
}

#[test]
fn servers_bear_witness_where_the_history_knows_nothing() {
    let before = "\
New election. My id = 1, proposed zxid=0x0
LEADING - LEADER ELECTION TOOK - 12 MS
Have quorum of supporters, sids: [[1, 3]]; starting up and setting last processed zxid: 0x100000000
Synchronizing with Learner sid: 2 maxCommittedLog=0x1000000a8 minCommittedLog=0x100000001 lastProcessedZxid=0x1000000a8 peerLastZxid=0x100000005
";
    assert_eq!(
        said(&[(1, before), (2, SHORT), (3, CUT)], &[])[0],
        "server 3 was ordered by server 2 to truncate its log to 0x100000005 although 0x1000000a8 had been committed, \
         according to the log of server 1"
    );
    // What a leader had when it took the lead is committed, too: the next one lacks it.
    let after = SHORT.replace("proposed zxid=0x100000005", "proposed zxid=0x100000004");
    assert_eq!(
        said(
            &[
                (1, &SHORT.replace("Learner", "Other")),
                (2, &after.replace("0x200000000", "0x300000000"))
            ],
            &[]
        ),
        [
            "server 2 took the lead with a log that ends at 0x100000004 although 0x100000005 had been committed, according to the \
          log of server 1"
        ]
    );
}

#[test]
fn elections_without_a_loss_are_valid_and_counted() {
    let one = "\
New election. My id = 1, proposed zxid=0x0
FOLLOWING - LEADER ELECTION TOOK - 12 MS
Synchronizing with Learner sid: 3 maxCommittedLog=0x0 minCommittedLog=0x0 lastProcessedZxid=0x0 peerLastZxid=0x1000000a8
New election. My id = 1, proposed zxid=0x1000000a8
LEADING - LEADER ELECTION TOOK - 12 MS
Have quorum of supporters, sids: [[1, 3]]; starting up and setting last processed zxid: 0x200000000
";
    let two = "\
New election. My id = 2, proposed zxid=0x0
LEADING - LEADER ELECTION TOOK - 12 MS
Have quorum of supporters, sids: [[1, 2]]; starting up and setting last processed zxid: 0x100000000
";
    let verdict = logs(&[(1, one), (2, two)]);
    let verdict = verdict
        .verdict(&history(&[0x1_0000_00a8, 0x2_0000_0003]))
        .unwrap();
    assert!(verdict.is_valid(), "{verdict}");
    assert_eq!((verdict.counts["leaders"], verdict.notes.len()), (2, 0));
}

#[test]
fn tokens_are_held_against_no_ensemble_if_there_are_several() {
    let mut two = logs(&[(2, SHORT)]);
    two.add([(1, "nothing".to_owned())]);
    assert!(two.verdict(&history(&[0x1_0000_00a8])).unwrap().is_valid());
    assert!(ServerLogs::default().verdict(&history(&[])).is_none());
}
