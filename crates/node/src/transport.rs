//! Everything that leaves a node: frames to open connections, requests to agents' endpoints, and mail to people.
//!
//! | module | content |
//! |---|---|
//! | `live` | the open inboxes and followed conversations |
//! | `dialect` | the bytes of a frame, for server-sent events and for C2A |
//! | `frames` | a cache of frames that were just encoded |
//! | `window` | frames that were sent and not acknowledged yet |
//! | `replies` | senders that wait for a streamed reply |
//! | `outbound` | requests to agents' endpoints |
//! | `outbound_limits` | the limits of those requests |
//! | `challenges` | pauses between challenges to an endpoint |
//! | `long_requests` | requests that are answered when a job is done |
//! | `notices` | notices for harnesses that are reached by POST |
//! | `mailer` | mail to people |
//! | `body_lines` | the lines of a request body that is still being sent |
//!
//! All of it is in memory and bounded, and knows no act and no store.

pub mod body_lines;
pub mod challenges;
pub mod dialect;
pub mod frames;
pub mod live;
pub mod long_requests;
pub mod mailer;
pub mod notices;
pub mod outbound;
pub mod outbound_limits;
pub mod replies;
pub mod window;

use self::challenges::Challenges;
use self::live::Live;
use self::long_requests::LongRequests;
use self::mailer::Mailer;
use self::notices::Notices;
use self::outbound::Outbound;
use self::replies::Replies;
use crate::config::Config;
use chorus_environment::Environment;
use prometheus_client::metrics::counter::Counter;
use std::sync::Arc;

pub struct TransportState {
    /// Shared with the store, which wakes it on commits.
    pub live: Arc<Live>,
    pub replies: Arc<Replies>,
    pub outbound: Outbound,
    /// Requests that agents answer when their job is done.
    pub long_requests: Arc<LongRequests>,
    pub challenges: Challenges,
    pub notices: Arc<Notices>,
    pub mailer: Mailer,
}

impl TransportState {
    /// `mails_dropped` counts mails that a limit refused.
    pub fn new(
        config: &Config,
        environment: &Environment,
        mails_dropped: Counter,
    ) -> Result<Self, reqwest::Error> {
        Ok(Self {
            live: Arc::default(),
            replies: Arc::default(),
            outbound: Outbound::new(config, environment.clone())?,
            long_requests: Arc::default(),
            challenges: Challenges::default(),
            notices: Arc::default(),
            mailer: Mailer::new(config, environment.clone(), mails_dropped),
        })
    }
}
