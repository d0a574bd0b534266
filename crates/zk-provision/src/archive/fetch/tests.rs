use super::*;

#[test]
fn every_answer_has_its_plan() {
    let cases = [
        (200, None, 0, Ok(Plan::Whole)),
        (200, None, 50, Ok(Plan::Whole)),
        (206, Some(50), 50, Ok(Plan::Rest)),
        (206, Some(10), 50, Ok(Plan::StartOver)),
        (206, None, 50, Ok(Plan::StartOver)),
        (
            206,
            Some(0),
            0,
            Err("the server answered 206 Partial Content"),
        ),
        (416, None, 50, Ok(Plan::Complete)),
        (
            416,
            None,
            0,
            Err("the server answered 416 Range Not Satisfiable"),
        ),
        (404, None, 0, Err("the server answered 404 Not Found")),
        (
            500,
            None,
            50,
            Err("the server answered 500 Internal Server Error"),
        ),
    ];
    for (status, start, have, expected) in cases {
        let answer = plan(StatusCode::from_u16(status).unwrap(), start, have);
        let expected = expected.map_err(str::to_owned);
        assert_eq!(answer, expected, "{status} {start:?} {have}");
    }
}
