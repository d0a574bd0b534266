use super::*;

const LONG: Duration = Duration::from_secs(20);

fn shell(script: &str, limit: Duration, tick: impl FnMut()) -> Result<String, String> {
    let output = output(Command::new("/bin/sh").args(["-c", script]), limit, tick)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn output_of_a_program_that_succeeds_is_returned() {
    assert_eq!(
        shell("echo out; echo err >&2", LONG, || {}).as_deref(),
        Ok("out\n")
    );
}

#[test]
fn complaints_of_a_program_that_fails_are_returned() {
    let said = |script: &str| shell(script, LONG, || {}).unwrap_err();
    assert_eq!(said("exit 3"), "sh failed (exit status: 3)");
    assert_eq!(
        said("echo one >&2; echo ' two ' >&2; exit 1"),
        "sh failed (exit status: 1): one; two"
    );
    assert_eq!(
        said("echo W: warned >&2; echo E: broken >&2; exit 100"),
        "sh failed (exit status: 100): broken"
    );
}

#[test]
fn program_that_takes_too_long_is_killed() {
    let started = Instant::now();
    let mut ticks = 0;
    let limit = Duration::from_millis(250);
    let said = shell("exec sleep 60", limit, || ticks += 1).unwrap_err();
    assert_eq!(said, "sh did not end within 250ms");
    assert!(ticks >= 2, "and was watched until then");
    assert!(started.elapsed() < LONG);
}

#[test]
fn missing_program_is_reported() {
    let said = output(&mut Command::new("/no/such/apt-get"), LONG, || {}).unwrap_err();
    assert_eq!(
        said,
        "apt-get: cannot start it: No such file or directory (os error 2)"
    );
}
