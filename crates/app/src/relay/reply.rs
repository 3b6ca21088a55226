//! Replying with a stream: lines of JSON, handed on as they come to the sender that waits for them.

use super::answer::MAX_BYTES;
use crate::app::App;
use crate::error::Error;
use crate::lines::{Bounds, Lines};
use crate::transport::replies::{Last, Line};
use bytes::Bytes;
use chorus_protocol::code::Code;
use chorus_protocol::ids::{AgentId, DeliveryId};
use chorus_protocol::relay::ReplyLine;
use chorus_store::reply_lines::{self, Waiting};
use chorus_store::{StoreError, Tx, revocation};
use futures_util::Stream;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::sleep;

/// How long a sender elsewhere that lags behind is left alone.
const LAG: Duration = Duration::from_millis(100);
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
    let (to, now) = (DeliveryId { agent, seq }, app.now());
    let begin = move |tx: &mut dyn Tx| {
        let may = reply_lines::begin(tx, to, now)?;
        Ok(if may { Some(tx.head(stream)?) } else { None })
    };
    let begun = app.store.write::<_, StoreError, _>(begin).await?.ok_or_else(gone)?;
    let listener = match app.replies.take(agent, seq) {
        Some(listener) => Hearing::Here(listener),
        None => Hearing::Elsewhere(to),
    };
    let bounds = Bounds { line: MAX_LINE, body: MAX_BYTES, patience: app.config.times.reply };
    let mut lines = Lines::new(body, bounds);
    loop {
        let line = tokio::select! {
            biased;
            _ = revocations.wait_for(|head| *head > begun) => return Err(gone()),
            line = lines.next() => line,
        };
        let said = match line.and_then(|line| line.map(|line| read(&line, lines.number())).transpose()) {
            Ok(Some(said)) => said,
            Ok(None) => return Err(Error::validation("the last line must be of type done or error")),
            Err(error) => {
                // The sender is told too; whether it still listens does not matter any more.
                let broken = ReplyLine::Error {
                    code: Code::Validation.as_str().into(),
                    message: error.message.clone(),
                };
                drop(listener.say(app, &broken, Line::Malformed(error.message.clone())).await);
                return Err(error);
            }
        };
        let last = !matches!(said, ReplyLine::Chunk { .. });
        let heard = tokio::select! {
            biased;
            _ = revocations.wait_for(|head| *head > begun) => return Err(gone()),
            heard = listener.say(app, &said, spoken(&said)) => heard?,
        };
        if !heard {
            return Err(gone());
        }
        if last {
            return Ok(());
        }
    }
}

/// Where the sender waits.
enum Hearing {
    /// On this node.
    Here(mpsc::Sender<Line>),
    /// On another, which reads what is written down.
    Elsewhere(DeliveryId),
}

impl Hearing {
    /// Says a line, once the sender has room for it; whether somebody still listens.
    async fn say(&self, app: &App, said: &ReplyLine, line: Line) -> Result<bool, Error> {
        let to = match self {
            Self::Here(listener) => return Ok(listener.send(line).await.is_ok()),
            Self::Elsewhere(to) => *to,
        };
        let (kind, data) = (said.kind().as_str(), said.data());
        loop {
            let (now, data) = (app.now(), data.clone());
            let say = move |tx: &mut dyn Tx| {
                let waiting = reply_lines::waiting(tx, to, now)?;
                if waiting == Waiting::Listens {
                    reply_lines::say(tx, to, kind, &data, now)?;
                }
                Ok(waiting)
            };
            match app.store.write::<_, StoreError, _>(say).await? {
                Waiting::Listens => return Ok(true),
                Waiting::Nobody => return Ok(false),
                Waiting::Lags => sleep(LAG).await,
            }
        }
    }
}

/// One line of a reply.
fn read(line: &[u8], number: usize) -> Result<ReplyLine, Error> {
    ReplyLine::read(line).map_err(|what| Error::validation(format_args!("line {number}: {what}")))
}

fn spoken(said: &ReplyLine) -> Line {
    match said {
        ReplyLine::Chunk { .. } => Line::Chunk(said.data()),
        ReplyLine::Done { .. } => Line::Last(Last::Done(said.data())),
        ReplyLine::Error { .. } => Line::Last(Last::Error(said.data())),
    }
}
