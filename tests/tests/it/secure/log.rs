//! Captures what all crates log at every level, and the messages of panics, and searches text for credentials.

use std::fmt::Write as _;
use std::io;
use std::panic;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::Bytes;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::FmtSpan;

/// What the threads of this process log, with the fields of all spans, and how they panic.
///
/// All threads, because the facade for blocking callers has a runtime of its own. Other tests that run at the same time
/// log here as well, and may not print these secrets either.
pub(crate) struct Log;

/// What was captured so far, and by how many callers it is wanted.
static CAPTURED: Mutex<(Vec<u8>, usize)> = Mutex::new((Vec::new(), 0));

impl Log {
    /// Captures what is logged until `f` has ended.
    pub(crate) fn of(f: impl FnOnce()) -> String {
        static INSTALL: Once = Once::new();
        INSTALL.call_once(|| {
            tracing_subscriber::fmt()
                .with_max_level(LevelFilter::TRACE)
                .with_span_events(FmtSpan::FULL)
                .with_thread_names(true)
                // No sequences of a terminal between the parts of a line.
                .with_ansi(false)
                .with_writer(|| Self)
                .init();
            let print = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                captured(format!("panic: {info}\n").as_bytes());
                print(info);
            }));
        });
        let begin = {
            let mut log = lock();
            log.1 += 1;
            log.0.len()
        };
        f();
        let mut log = lock();
        log.1 -= 1;
        String::from_utf8_lossy(&log.0[begin..]).into_owned()
    }
}

fn lock() -> MutexGuard<'static, (Vec<u8>, usize)> {
    CAPTURED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn captured(text: &[u8]) {
    let mut log = lock();
    if log.1 > 0 {
        log.0.extend(text);
    }
}

impl io::Write for Log {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        captured(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the ways to print a secret: as text, with escapes, as a list of bytes, in hexadecimal, and in Base64
/// at any offset.
pub(crate) fn printed_forms(secret: &[u8]) -> Vec<String> {
    let list = format!("{secret:?}");
    let list = list.trim_matches(['[', ']']).to_owned();
    let hex = secret.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("writing to a string does not fail");
        hex
    });
    let escaped = format!("{:?}", Bytes::copy_from_slice(secret));
    let escaped = escaped[2..escaped.len() - 1].to_owned();
    let mut forms = vec![list, escaped, hex.to_uppercase(), hex];
    forms.extend(str::from_utf8(secret).map(str::to_owned));
    for offset in 0..3 {
        let padded = [&vec![0; offset], secret].concat();
        let text = STANDARD_NO_PAD.encode(&padded);
        // Without the characters that depend on the neighbours.
        let first = [0, 2, 3][offset];
        let last = padded.len() * 8 / 6;
        forms.push(text[first..last].to_owned());
    }
    forms
}

#[test]
fn secrets_are_found_in_each_form() {
    let forms = printed_forms(b"wonderland");
    for text in [
        "user wonderland".to_owned(),
        format!("{:?}", b"alice:wonderland"),
        "616c6963653a776f6e6465726c616e64".to_owned(),
        STANDARD_NO_PAD.encode(b"alice:wonderland"),
        STANDARD_NO_PAD.encode(b"ann:wonderland!"),
        STANDARD_NO_PAD.encode(b"to:wonderland?!"),
    ] {
        assert!(forms.iter().any(|form| text.contains(form)), "{text}");
    }
    assert!(!forms.iter().any(|form| "wonder land".contains(form)));
    let forms = printed_forms(&[0, 200, b'"', 7]);
    let printed = format!("{:?}", Bytes::from_static(&[9, 0, 200, b'"', 7, 9]));
    assert!(forms.iter().any(|form| printed.contains(form)), "{printed}");
}

#[test]
fn panics_of_other_threads_are_captured() {
    let logged = Log::of(|| {
        let panicking = std::thread::spawn(|| panic!("in wonderland"));
        panicking.join().expect_err("it panics");
    });
    assert!(logged.contains("in wonderland"), "{logged}");
}
