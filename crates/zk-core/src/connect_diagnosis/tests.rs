//! What is said about servers that grant no session.

use tokio::net::TcpListener;

use zk_wire::ConnectString;

use super::*;

const SHORT: Duration = Duration::from_millis(500);
const LONG: Duration = Duration::from_secs(60);

async fn finding(server: &str, allowed: Duration) -> Finding {
    let connect: ConnectString = server.parse().unwrap();
    let mut unanswered = diagnose(&connect.hosts, Duration::from_secs(5), allowed).await;
    unanswered.servers.remove(0).finding
}

#[tokio::test]
async fn closed_port_and_unknown_host_are_distinguished() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = listener.local_addr().unwrap();
    drop(listener);
    assert_eq!(finding(&closed.to_string(), LONG).await, Finding::Refused);
    let unknown = finding("no-such-host.invalid", SHORT).await;
    assert!(matches!(unknown, Finding::NotResolved(_)), "{unknown:?}");
}

#[tokio::test]
async fn silent_server_is_given_up_at_the_deadline() {
    // The kernel accepts the connection, and no process reads from it.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    assert_eq!(
        finding(&listener.local_addr().unwrap().to_string(), SHORT).await,
        Finding::Silent
    );
}

#[tokio::test]
async fn answer_decides_between_serving_and_not() {
    for (answer, expected) in [
        (
            "This ZooKeeper instance is not currently serving requests\n",
            Finding::NotServing,
        ),
        (
            "Zookeeper version: 3.8.0\nMode: standalone\n",
            Finding::Serving,
        ),
        (
            "srvr is not executed because it is not in the whitelist.\n",
            Finding::Serving,
        ),
        ("HTTP/1.1 400 Bad Request\r\n", Finding::Foreign),
        ("", Finding::Closed),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut word = [0; 4];
            stream.read_exact(&mut word).await.unwrap();
            stream.write_all(answer.as_bytes()).await.unwrap();
            drop(stream);
            std::future::pending::<()>().await;
        };
        let found = tokio::select! {
            found = finding(&address, LONG) => found,
            () = serve => unreachable!("it serves for ever"),
        };
        assert_eq!(found, expected, "{answer:?}");
    }
}

#[test]
fn every_server_is_named_with_what_was_found() {
    let connect: ConnectString = "a,b:1,[::1]:2,c,d,e,f,g,h".parse().unwrap();
    let findings = [
        Finding::NotResolved("no such name".to_owned()),
        Finding::Refused,
        Finding::TimedOut,
        Finding::Io("network unreachable".to_owned()),
        Finding::Silent,
        Finding::NotServing,
        Finding::Closed,
        Finding::Foreign,
        Finding::Serving,
    ];
    let servers = connect.hosts.iter().cloned().zip(findings);
    let servers = servers.map(|(server, finding)| Tried {
        server,
        address: None,
        finding,
    });
    let servers = servers.collect();
    let unanswered = ConnectDiagnosis {
        waited: Duration::from_secs(5),
        servers,
    };
    assert_eq!(
        unanswered.to_string(),
        "no server granted a session within 5s: a:2181 is not a known host (no such name), \
         b:1 refused the connection (nothing listens there), \
         [::1]:2 did not take the connection in time, \
         c:2181 failed (network unreachable), \
         d:2181 accepted the connection but does not reply (hung or paused?), \
         e:2181 runs but does not serve (no quorum?), \
         f:2181 closed the connection at once (more connections from this address than its maxClientCnxns, by default \
         60? no quorum?), \
         g:2181 does not reply as ZooKeeper does (another service?), \
         h:2181 serves, but granted no session in time"
    );
}

#[tokio::test]
async fn each_address_of_a_name_is_checked() {
    let connect: ConnectString = "localhost:1".parse().unwrap();
    let diagnosis = diagnose(&connect.hosts, SHORT, LONG).await;
    assert!(!diagnosis.servers.is_empty());
    for tried in &diagnosis.servers {
        let address = tried.address.expect("it was named otherwise");
        assert!(address.ip().is_loopback() && address.port() == 1);
        assert_eq!(tried.finding, Finding::Refused);
    }
    let shown = diagnosis.to_string();
    let first = diagnosis.servers[0].address.unwrap();
    assert!(
        shown.contains(&format!("localhost:1 ({first}) refused")),
        "{shown}"
    );
}
