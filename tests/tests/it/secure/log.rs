//! Captures what all crates log on one thread, at every level, and searches text for credentials.

use std::fmt::Write as _;
use std::io;
use std::sync::Arc;
use std::sync::Mutex;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

/// What was logged, with the fields of all spans.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Captures what is logged on this thread until `f` has ended.
    ///
    /// Sessions run on the runtime of their caller: a runtime on this thread alone logs here alone.
    pub(crate) fn of(f: impl FnOnce()) -> String {
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(LevelFilter::TRACE)
            .with_span_events(FmtSpan::FULL)
            .with_writer(move || writer.clone())
            .finish();
        let until_dropped = subscriber.set_default();
        f();
        drop(until_dropped);
        let text = log.0.lock().expect("no panic");
        String::from_utf8_lossy(&text).into_owned()
    }
}

impl io::Write for Log {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the ways to print a secret: as text, as a list of bytes, in hexadecimal, and in Base64 at any offset.
pub(crate) fn printed_forms(secret: &[u8]) -> Vec<String> {
    let list = format!("{secret:?}");
    let list = list.trim_matches(['[', ']']).to_owned();
    let hex = secret.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("writing to a string does not fail");
        hex
    });
    let mut forms = vec![list, hex.to_uppercase(), hex];
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
}
