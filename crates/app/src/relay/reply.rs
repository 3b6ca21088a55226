//! Replying with a stream: lines of JSON, handed on as they come to the sender that waits for them.

use super::answer::MAX_BYTES;
use crate::app::App;
use crate::delivery::replies::{Last, Line};
use crate::error::Error;
use bytes::{Bytes, BytesMut};
use chorus_protocol::code::Code;
use chorus_protocol::ids::AgentId;
use chorus_protocol::relay::ReplyLine;
use chorus_store::{StoreError, Tx, revocation};
use futures_util::{Stream, StreamExt};
use std::time::Duration;
use tokio::time::timeout;

/// The longest line of a reply.
const MAX_LINE: usize = 256 * 1024;

/// The agent that may reply with this token, if it is one that we signed.
pub fn replier(app: &App, token: &str) -> Option<AgentId> {
    Some(app.config.master_key.read_reply_token(token)?.0)
}

/// Replies with the lines of a body, to the sender that the token names: the last one must be `done` or `error`. A token is
/// good for one reply.
pub async fn reply<B, E>(app: &App, token: &str, body: B) -> Result<(), Error>
where
    B: Stream<Item = Result<Bytes, E>> + Unpin,
{
    let gone = || {
        Error::new(
            Code::NotFound,
            "nobody waits for this reply: it was used, came too late, or its sender has gone",
        )
    };
    let (agent, seq) = app.config.master_key.read_reply_token(token).ok_or_else(gone)?;
    // Followed before it is taken: whatever was taken back before has nobody waiting any more.
    let (mut revocations, stream) = (app.revocations(agent), revocation::stream(agent));
    let begun = app.store.read::<_, StoreError, _>(move |tx: &mut dyn Tx| tx.head(stream)).await?;
    let listener = app.replies.take(agent, seq).ok_or_else(gone)?;
    let mut lines =
        Lines { body, buffer: BytesMut::new(), read: 0, number: 0, patience: app.config.times.reply };
    loop {
        let line = tokio::select! {
            biased;
            _ = revocations.wait_for(|head| *head > begun) => return Err(gone()),
            line = lines.next() => line,
        };
        let said = match line {
            Ok(Some(said)) => said,
            Ok(None) => return Err(Error::validation("the last line must be of type done or error")),
            Err(error) => {
                // The sender is told too; whether it still listens does not matter any more.
                drop(listener.send(Line::Malformed(error.message.clone())).await);
                return Err(error);
            }
        };
        let last = matches!(said, Line::Last(_));
        listener.send(said).await.map_err(|_| gone())?;
        if last {
            return Ok(());
        }
    }
}

/// The lines of a reply, as they come in.
struct Lines<B> {
    body: B,
    buffer: BytesMut,
    read: usize,
    number: usize,
    patience: Duration,
}

impl<B, E> Lines<B>
where
    B: Stream<Item = Result<Bytes, E>> + Unpin,
{
    async fn next(&mut self) -> Result<Option<Line>, Error> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(end + 1);
                if let Some(said) = self.line(&line)? {
                    return Ok(Some(said));
                }
                continue;
            }
            if self.buffer.len() > MAX_LINE || self.read > MAX_BYTES {
                return Err(Error::validation(format_args!(
                    "line {}: a line may hold {MAX_LINE} bytes and a reply {MAX_BYTES}",
                    self.number + 1
                )));
            }
            let late = |_| Error::new(Code::RequestTimeout, "the next line did not arrive in time");
            let Some(data) = timeout(self.patience, self.body.next()).await.map_err(late)? else {
                let rest = self.buffer.split();
                return self.line(&rest);
            };
            let data = data.map_err(|_| Error::validation("the reply broke off"))?;
            self.read += data.len();
            self.buffer.extend_from_slice(&data);
        }
    }

    /// One line; an empty one says nothing.
    fn line(&mut self, line: &[u8]) -> Result<Option<Line>, Error> {
        self.number += 1;
        let line = line.trim_ascii();
        if line.is_empty() {
            return Ok(None);
        }
        let fault = |what: String| Error::validation(format_args!("line {}: {what}", self.number));
        let said = ReplyLine::read(line).map_err(fault)?;
        let data = said.data();
        Ok(Some(match said {
            ReplyLine::Chunk { .. } => Line::Chunk(data),
            ReplyLine::Done { .. } => Line::Last(Last::Done(data)),
            ReplyLine::Error { .. } => Line::Last(Last::Error(data)),
        }))
    }
}
