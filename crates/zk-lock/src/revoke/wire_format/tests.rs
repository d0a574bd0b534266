//! Requests and answers as lines in the data of a node.

use super::*;
use crate::owner::OwnerInfo;

fn request(id: &str, by: &str, reason: &str) -> RequestLine {
    RequestLine {
        id: id.to_owned(),
        within: Duration::from_millis(1500),
        by: by.to_owned(),
        reason: reason.to_owned(),
    }
}

#[test]
fn a_request_and_its_answer_leave_the_owner_as_it_was() {
    let owner = OwnerInfo::new("a", 1)
        .with_label("x")
        .with_payload("\n\nrevoke: no 1 b c");
    let before = owner.to_bytes();
    for (by, reason) in [("b/2", "why not"), ("b \n 2", "\n\n"), ("", ""), ("b", "")] {
        let asking = request("7-1", by, reason);
        let asked = add_request(&before, &asking).unwrap();
        assert_eq!(OwnerInfo::parse(&asked), Some(owner.clone()));
        assert_eq!(requests(&asked), [asking]);
        assert_eq!(answer_to(&asked, "7-1"), None);
        for answer in [
            RequestAnswer::Accepted,
            RequestAnswer::Refused {
                reason: "no\nno".to_owned(),
            },
        ] {
            let with_answer = put_answer(&asked, "7-1", &answer).unwrap();
            assert_eq!(requests(&with_answer), []);
            assert_eq!(answer_to(&with_answer, "7-1"), Some(answer));
            assert_eq!(answer_to(&with_answer, "7-"), None);
            assert_eq!(remove_request(&with_answer, "7-1"), Some(before.clone()));
        }
        assert_eq!(remove_request(&asked, "7-1"), Some(before.clone()));
        assert_eq!(remove_request(&asked, "7"), None);
    }
}

#[test]
fn several_may_ask_and_old_answers_make_room() {
    let mut data = OwnerInfo::new("a", 1).to_bytes();
    for at in 0..MAX_LINES {
        data = add_request(&data, &request(&format!("{at}"), "b", "c")).unwrap();
    }
    let one_more = request("more", "b", "c");
    assert_eq!(add_request(&data, &one_more), Err(AddRequestError::TooMany));
    data = put_answer(&data, "3", &RequestAnswer::Accepted).unwrap();
    data = add_request(&data, &one_more).unwrap();
    assert_eq!(answer_to(&data, "3"), None);
    let ids: Vec<_> = requests(&data).into_iter().map(|one| one.id).collect();
    assert_eq!(ids, ["0", "1", "2", "4", "5", "6", "7", "more"]);
}

#[test]
fn data_in_other_forms_takes_no_request() {
    for data in [&b""[..], b"10.0.0.1", b"__REVOKE__", b"revoke: 1 2 a b"] {
        assert_eq!(
            add_request(data, &request("1", "b", "c")),
            Err(AddRequestError::ForeignData),
            "{data:?}"
        );
        assert_eq!(requests(data), []);
        assert_eq!(remove_request(data, "1"), None);
    }
    for line in ["revoke: ", "revoke: 1", "revoke: 1 x", "revoke: 1 -5 a b"] {
        assert_eq!(requests(format!("owner: a/1\n{line}").as_bytes()), []);
    }
}
