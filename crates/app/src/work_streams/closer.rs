//! A work stream in detail: its latest messages, the current claims and the caller's permissions.
//!
//! This only reads. It looks at the newest messages only, however long the stream is.

use super::{may_change, view, visible};
use crate::conversation::{FoundView, show};
use chorus_node::App;
use chorus_node::Error;
use chorus_protocol::api::streams::StreamView;
use chorus_protocol::ids::{Principal, StreamId};
use chorus_protocol::time::rfc3339;
use chorus_protocol::words::ClaimState;
use chorus_store::{Tx, claims, members, work_streams};
use std::collections::HashMap;

/// The newest messages in which claims are looked for.
const LOOKED_AT: i64 = 100;
/// The newest messages that are shown.
const LATEST: usize = 20;

/// A stream in detail.
#[derive(Debug)]
pub struct Closer {
    pub stream: StreamView,
    /// True if the caller may change and close it.
    pub may_change: bool,
    /// True if the caller takes part in it.
    pub takes_part: bool,
    /// The latest messages, the newest first.
    pub latest: Vec<FoundView>,
    pub claimed: Vec<Claimed>,
}

/// A claimed message.
#[derive(Debug)]
pub struct Claimed {
    pub message: FoundView,
    /// The holder's handle in the channel, or `None` if it has left.
    pub holder: Option<String>,
    pub until: String,
}

/// Returns the details of an open or closed stream.
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
