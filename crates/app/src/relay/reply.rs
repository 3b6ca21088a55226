//! Streamed replies: lines of JSON, passed on to the waiting sender as they arrive.

use super::answer::MAX_BYTES;
use bytes::Bytes;
use chorus_node::App;
use chorus_node::Error;
use chorus_node::limits::body_budget::BodyLease;
use chorus_node::transport::body_lines::{Bounds, Lines};
use chorus_node::transport::replies::{Last, Line};
use chorus_protocol::code::Code;
use chorus_protocol::ids::{AgentId, DeliveryId};
use chorus_protocol::relay::ReplyLine;
use chorus_store::reply_lines::{self, Waiting};
use chorus_store::{StoreError, StreamKey, Tx};
use futures_util::Stream;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::sleep;

/// The pause before checking again whether a slow sender on another node has caught up.
const LAG: Duration = Duration::from_millis(100);
/// The longest line of a reply.
const MAX_LINE: usize = 256 * 1024;

/// Returns the agent that may reply with this token, if the hub signed it.
pub fn replier(app: &App, token: &str) -> Option<AgentId> {
    Some(app.config.master_key.read_reply_token(token)?.0)
}

/// Replies with the lines of a body to the sender that the token names. The last line must be `done` or
/// `error`. A token is valid for one reply.
pub async fn reply<B, E>(app: &App, token: &str, body: B, lease: BodyLease) -> Result<(), Error>
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
    // Subscribes before the token is used. Nobody waits for a reply that was revoked earlier.
    let (mut revocations, stream) = (app.revocations(agent), StreamKey::revocations(agent));
    let (to, now) = (DeliveryId { agent, seq }, app.now());
    let begin = move |tx: &mut dyn Tx| {
        let may = reply_lines::begin(tx, to, now)?;
        Ok(if may { Some(tx.head(stream)?) } else { None })
    };
    let begun = app.store.write::<_, StoreError, _>(begin).await?.ok_or_else(gone)?;
    let listener = match app.transport.replies.take(agent, seq) {
        Some(listener) => Hearing::Here(listener),
        None => Hearing::Elsewhere(to),
    };
    let bounds = Bounds { line: MAX_LINE, body: MAX_BYTES, patience: app.config.times.reply };
    let mut lines = Lines::new(body, bounds, lease);
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
                // The sender gets the error too. It may have stopped listening, which no longer matters.
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

/// The node on which the sender waits.
enum Hearing {
    /// This node.
    Here(mpsc::Sender<Line>),
    /// Another node, which reads the stored lines.
    Elsewhere(DeliveryId),
}

impl Hearing {
    /// Sends a line once the sender has room for it, and returns whether it still listens.
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

/// Parses one line of a reply.
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
