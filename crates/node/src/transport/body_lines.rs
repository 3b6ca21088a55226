//! The lines of a body, as they come in: bounded in length, in all, and in how long the next may take.

use crate::error::Error;
use crate::limits::body_budget::BodyLease;
use bytes::{Bytes, BytesMut};
use chorus_protocol::code::Code;
use futures_util::{Stream, StreamExt};
use std::time::Duration;
use tokio::time::timeout;

/// Limits on the size and the time of a body.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// The longest line, in bytes.
    pub line: usize,
    /// All of them, in bytes.
    pub body: usize,
    /// The time limit for the next line.
    pub patience: Duration,
}

/// A body that is read line by line.
pub struct Lines<B> {
    body: B,
    bounds: Bounds,
    lease: BodyLease,
    buffer: BytesMut,
    read: usize,
    /// The number of the last line, from 1.
    number: usize,
}

impl<B, E> Lines<B>
where
    B: Stream<Item = Result<Bytes, E>> + Unpin,
{
    pub fn new(body: B, bounds: Bounds, lease: BodyLease) -> Self {
        Self { body, bounds, lease, buffer: BytesMut::new(), read: 0, number: 0 }
    }

    /// The number of the line that was read last, from 1.
    pub fn number(&self) -> usize {
        self.number
    }

    /// The next line that is not empty; nothing at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(end + 1);
                if let Some(line) = self.take(line) {
                    return Ok(Some(line));
                }
                continue;
            }
            let Bounds { line, body, patience } = self.bounds;
            if self.buffer.len() > line || self.read > body {
                return Err(Error::validation(format_args!(
                    "line {}: a line may hold {line} bytes, and all together {body}",
                    self.number + 1
                )));
            }
            let late = |_| Error::new(Code::RequestTimeout, "the next line did not arrive in time");
            let Some(data) = timeout(patience, self.body.next()).await.map_err(late)? else {
                let rest = self.buffer.split();
                return Ok(self.take(rest));
            };
            let data = data.map_err(|_| Error::validation("the body broke off"))?;
            self.read += data.len();
            self.lease.resize(self.buffer.len() + data.len())?;
            self.buffer.extend_from_slice(&data);
        }
    }

    /// One line; an empty one says nothing.
    fn take(&mut self, line: BytesMut) -> Option<Bytes> {
        self.number += 1;
        let line = line.freeze();
        let text = line.trim_ascii();
        (!text.is_empty()).then(|| line.slice_ref(text))
    }
}
