//! What a route is: said in one value beside it, read by the middleware.

use crate::error::Format;
use axum::extract::Request;
use chorus_app::App;
use chorus_protocol::ids::AgentId;

/// What holds for a route before its door is reached.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Route {
    /// In which format errors go out.
    pub(crate) format: Format,
    /// Which credentials it takes.
    pub(crate) credentials: Credentials,
    /// What an agent may show besides: something it was given for this route.
    pub(crate) grant: Option<Grant>,
    /// Whether it keeps time itself, because it lasts as long as its peer has something to say.
    pub(crate) keeps_time: bool,
    /// What other sites' pages may do with it.
    pub(crate) foreign_pages: ForeignPages,
    /// Whether it costs nothing: monitors must see a hub that is busy with others.
    pub(crate) free: bool,
}

/// Which credentials a route takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Credentials {
    /// A key, a token or a browser's session, if one is shown; its door says who may.
    Any,
    /// None: it is the same for everybody, or its door looks at the key itself. A stale key is no reason to refuse it.
    Ignored,
    /// A secret in its path that its door looks up, and charges.
    Door,
}

/// What pages of other sites may do with a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ForeignPages {
    /// Nothing: reading it changes something.
    Refused,
    /// `GET` without being told the answer; nothing that changes anything.
    Unread,
    /// Everything, as any program: it takes no credentials that a browser adds by itself.
    Allowed,
}

/// A secret that we grant: whose it is follows without a look-up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grant {
    /// What it is for; calls are charged to its agent for this.
    pub(crate) purpose: &'static str,
    /// The agent it was given to, if it is good.
    pub(crate) read: fn(&App, &Request) -> Option<AgentId>,
}

impl Route {
    /// A route of the hub's own API.
    pub(crate) const API: Self = Self {
        format: Format::Own,
        credentials: Credentials::Any,
        grant: None,
        keeps_time: false,
        foreign_pages: ForeignPages::Unread,
        free: false,
    };
    /// A route of the relay.
    pub(crate) const RELAY: Self = Self { format: Format::Relay, ..Self::API };
    /// A page, or something else that is the same for everybody.
    pub(crate) const PUBLIC: Self = Self { credentials: Credentials::Ignored, ..Self::RELAY };
}
