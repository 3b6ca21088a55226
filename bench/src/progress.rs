//! Progress for people: a line per phase on standard error, updated in place on a terminal.

use std::future::Future;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// The interval at which the line of a running phase changes.
const TICK: Duration = Duration::from_millis(250);
/// Moves to the begin of the line and clears it.
const AGAIN: &str = "\r\x1b[2K";

/// The progress lines. Errors of writing them are ignored.
#[derive(Debug)]
pub(crate) struct Progress {
    terminal: bool,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { terminal: std::io::stderr().is_terminal() }
    }

    /// Waits for `work`, which takes about `about`, and shows its progress.
    pub(crate) async fn during<T>(&self, what: &str, about: Duration, work: impl Future<Output = T>) -> T {
        let (begun, about) = (Instant::now(), about.as_secs_f64());
        tokio::pin!(work);
        loop {
            let gone = begun.elapsed().as_secs_f64();
            self.now(&if about > 0.0 {
                format!("{what}: {gone:.1} of {about:.1} s")
            } else {
                format!("{what}: {gone:.1} s")
            });
            tokio::select! {
                done = &mut work => return done,
                () = tokio::time::sleep(TICK) => {}
            }
        }
    }

    /// Shows the current activity, on a terminal only.
    pub(crate) fn now(&self, line: &str) {
        if self.terminal {
            write(&format!("{AGAIN}{line}"));
        }
    }

    /// Prints a finished step.
    pub(crate) fn done(&self, line: &str) {
        let again = if self.terminal { AGAIN } else { "" };
        write(&format!("{again}{line}\n"));
    }
}

impl Drop for Progress {
    /// Clears the line.
    fn drop(&mut self) {
        self.now("");
    }
}

fn write(text: &str) {
    let mut stderr = std::io::stderr().lock();
    stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush()).ok();
}
