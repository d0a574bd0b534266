use super::super::history_builder::{HistoryBuilder, valid, violated};
use super::*;

fn parse(text: &str) -> Result<Checker, String> {
    text.parse()
        .map_err(|error: ParseCheckerError| error.to_string())
}

#[test]
fn every_name_is_a_checker_and_reads_what_it_writes() {
    for name in NAMES {
        let text = if *name == "semaphore" {
            "semaphore:permits=2"
        } else {
            name
        };
        let checker = parse(text).unwrap();
        let verdict = checker.check(&History::default());
        assert_eq!(verdict.checker, *name);
        let checker = checker.on("/a/*");
        let json = serde_json::to_string(&checker).unwrap();
        assert_eq!(
            serde_json::from_str::<Checker>(&json).unwrap(),
            checker,
            "{json}"
        );
    }
}

#[test]
fn settings_are_read_with_their_units() {
    let checker = parse("fenced-mutex:ordered=true,path=/locks/*").unwrap();
    let expected = FencedMutex::default().with_order();
    assert_eq!(checker, Checker::from(expected).on("/locks/*"));
    assert_eq!(
        serde_json::to_string(&checker).unwrap(),
        r#"{"path":"/locks/*","checker":"fenced-mutex","ordered":true}"#
    );
    let checker = parse("progress:bound=2s").unwrap();
    let expected = Liveness::default().with_bound(std::time::Duration::from_secs(2));
    assert_eq!(checker, expected.into());
}

#[test]
fn an_unknown_checker_or_setting_is_named() {
    for (text, problem) in [
        (
            "mutex",
            r#"mutex: unknown checker "mutex"; choose one of fenced-mutex, "#,
        ),
        ("semaphore", "semaphore: missing field `permits`"),
        (
            "semaphore:permits=-1",
            "semaphore:permits=-1: invalid value",
        ),
        (
            "semaphore:permts=1",
            "semaphore:permts=1: unknown field `permts`",
        ),
        (
            "counter:initial",
            r#"counter:initial: "initial" must have the form SETTING=VALUE"#,
        ),
        (
            "counter:path=3",
            "counter:path=3: path must be a string, not 3",
        ),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.starts_with(problem), "{error}");
    }
}

#[test]
fn only_the_paths_that_were_named_are_judged() {
    let mut s = HistoryBuilder::new();
    s.acquire("a", 0..10, 1);
    s.acquire("b", 0..20, 2);
    s.release("a", 30..31);
    s.release("b", 30..31);
    let op = crate::Op::acquire("/y");
    s.ok("a", &op, 0..10, ());
    let history = s.history();
    let on = |path: &str| {
        Checker::from(FencedMutex::default())
            .on(path)
            .check(&history)
    };
    violated(&on("/x"), &["overlap: 1 2"]);
    violated(&on("/*"), &["overlap: 1 2"]);
    valid(&on("/y*"));
    assert_eq!(on("/x").checker, "fenced-mutex on /x");
    assert_eq!(on("/").counts.get("grants"), None);
}
