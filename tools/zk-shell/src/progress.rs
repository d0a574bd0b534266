//! A progress bar on standard error, if that is a terminal.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How many nodes a command has worked on. The bar vanishes with it.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Begins a bar; `verb` says what is done to the nodes, and `total` how many there are about, if that is known.
    pub(crate) fn new(verb: &'static str, total: Option<u64>) -> Self {
        let target = if std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let template = match total {
            Some(_) => {
                "{msg} {human_pos} of about {human_len} nodes  {wide_bar}  {per_sec}, {eta} left"
            }
            None => "{msg} {human_pos} nodes  {per_sec}",
        };
        let style = ProgressStyle::with_template(template).expect("the template is well-formed");
        let bar = ProgressBar::with_draw_target(total, target)
            .with_style(style)
            .with_message(verb);
        // It is drawn on a thread of its own: a terminal that is stopped must not delay the session.
        if !bar.is_hidden() {
            bar.enable_steady_tick(DRAWN_EVERY);
        }
        Self(bar)
    }

    /// Counts further nodes.
    pub(crate) fn add(&self, nodes: u64) {
        self.0.inc(nodes);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

const DRAWN_EVERY: Duration = Duration::from_millis(250);
