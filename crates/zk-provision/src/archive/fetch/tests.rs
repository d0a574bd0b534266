use super::*;

#[test]
fn content_range_has_start_and_total() {
    assert_eq!(parse_range("bytes 100-199/200"), (Some(100), Some(200)));
    assert_eq!(parse_range("bytes */200"), (None, Some(200)));
    assert_eq!(parse_range("bytes 5-9/*"), (Some(5), None));
    for bad in ["", "100-199/200", "bytes", "items 1-2/3"] {
        assert_eq!(parse_range(bad), (None, None), "{bad}");
    }
}

#[test]
fn every_answer_has_its_plan() {
    let none = (None, None);
    let cases = [
        (200, none, 0, Ok(Plan::Whole)),
        (200, none, 50, Ok(Plan::Whole)),
        (206, (Some(50), Some(100)), 50, Ok(Plan::Rest)),
        (206, (Some(10), Some(100)), 50, Ok(Plan::StartOver)),
        (206, none, 50, Ok(Plan::StartOver)),
        (
            206,
            (Some(0), Some(100)),
            0,
            Err("the server answered 206 Partial Content"),
        ),
        (416, (None, Some(50)), 50, Ok(Plan::Complete)),
        (416, (None, Some(40)), 50, Ok(Plan::StartOver)),
        (416, none, 50, Ok(Plan::StartOver)),
        (
            416,
            none,
            0,
            Err("the server answered 416 Range Not Satisfiable"),
        ),
        (404, none, 0, Err("the server answered 404 Not Found")),
        (
            500,
            none,
            50,
            Err("the server answered 500 Internal Server Error"),
        ),
    ];
    for (status, range, have, expected) in cases {
        let answer = plan(StatusCode::from_u16(status).unwrap(), range, have);
        assert_eq!(
            answer,
            expected.map_err(str::to_owned),
            "{status} {range:?} {have}"
        );
    }
}
