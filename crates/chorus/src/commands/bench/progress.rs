//! What a person sees while it runs: a line for each phase on standard error, in place on a terminal.

use std::future::Future;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// How often the line of a running phase changes.
const TICK: Duration = Duration::from_millis(250);
/// To the begin of the line, which is then empty.
const AGAIN: &str = "\r\x1b[2K";

/// The lines. If nobody reads them, nothing is lost.
#[derive(Debug)]
pub(crate) struct Progress {
    terminal: bool,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { terminal: std::io::stderr().is_terminal() }
    }

    /// Waits for `work`, which takes about so long.
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

    /// What is being done at this moment; only a terminal shows it.
    pub(crate) fn now(&self, line: &str) {
        if self.terminal {
            write(&format!("{AGAIN}{line}"));
        }
    }

    /// What was done.
    pub(crate) fn done(&self, line: &str) {
        let again = if self.terminal { AGAIN } else { "" };
        write(&format!("{again}{line}\n"));
    }
}

impl Drop for Progress {
    /// What follows begins on an empty line.
    fn drop(&mut self) {
        self.now("");
    }
}

fn write(text: &str) {
    let mut stderr = std::io::stderr().lock();
    stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush()).ok();
}
