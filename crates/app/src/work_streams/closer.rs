//! A work stream as somebody sees it who looks closer: what was said in it last, who is at what, and what may be done about it.
//!
//! Read, never written. Only the newest messages are looked at, however long the stream is.

use super::{may_change, view, visible};
use crate::app::App;
use crate::conversation::{FoundView, show};
use crate::error::Error;
use chorus_protocol::api::streams::StreamView;
use chorus_protocol::ids::{Principal, StreamId};
use chorus_protocol::time::rfc3339;
use chorus_protocol::words::ClaimState;
use chorus_store::{Tx, claims, members, work_streams};
use std::collections::HashMap;

/// Among so many of the newest messages claims are looked for.
const LOOKED_AT: i64 = 100;
/// So many of them are shown.
const LATEST: usize = 20;

/// A stream, and what goes on in it.
#[derive(Debug)]
pub struct Closer {
    pub stream: StreamView,
    /// Whether the caller may change and close it.
    pub may_change: bool,
    /// Whether it has a part in it.
    pub takes_part: bool,
    /// The newest first.
    pub latest: Vec<FoundView>,
    /// What somebody has taken on.
    pub claimed: Vec<Claimed>,
}

/// A message that somebody has taken on.
#[derive(Debug)]
pub struct Claimed {
    pub message: FoundView,
    /// What the holder is called there; nothing, if it has gone.
    pub holder: Option<String>,
    pub until: String,
}

/// Looks closer at a stream, open or closed.
pub async fn look_closer(app: &App, who: Principal, id: StreamId) -> Result<Closer, Error> {
    let now = app.now();
    let find = move |tx: &mut dyn Tx| {
        let stream = visible(tx, id, who)?;
        let newest = work_streams::newest(tx, id, who, LOOKED_AT)?;
        let (mut places, mut latest, mut claimed) = (HashMap::new(), vec![], vec![]);
        for (n, event) in newest.into_iter().enumerate() {
            let held = claims::of(tx, event)?.and_then(|claim| Some((claim.conversation, claim.held?)));
            let held = held.filter(|(_, held)| held.state == ClaimState::Held && held.until > now);
            if let Some((place, held)) = held
                && let Some(message) = show(tx, who, event, &mut places)?
            {
                let holder = members::of(tx, place, held.holder)?.map(|member| member.handle);
                claimed.push(Claimed { message, holder, until: rfc3339(held.until) });
            }
            if n < LATEST {
                latest.extend(show(tx, who, event, &mut places)?);
            }
        }
        Ok(Closer {
            may_change: stream.closed_at.is_none() && may_change(tx, id, who)?,
            takes_part: work_streams::part_of(tx, id, who)?.is_some(),
            stream: view(tx, &stream, who)?,
            latest,
            claimed,
        })
    };
    app.store.read::<_, Error, _>(find).await
}
