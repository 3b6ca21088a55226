//! The properties of a route: one value beside the route, read by the middleware.

use crate::error::Format;
use axum::extract::Request;
use chorus_node::App;
use chorus_protocol::ids::AgentId;

/// The properties that the middleware applies before a route's door is reached.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Route {
    /// The format of its errors.
    pub(crate) format: Format,
    /// The credentials it accepts.
    pub(crate) credentials: Credentials,
    /// A secret that an agent may present instead of its key: one granted for this route.
    pub(crate) grant: Option<Grant>,
    /// True if the route has no timeout, because it lasts as long as its peer sends or listens.
    pub(crate) keeps_time: bool,
    /// The access of other sites' pages.
    pub(crate) foreign_pages: ForeignPages,
    /// True if calls are free of charge: monitors must reach a hub that is busy with others.
    pub(crate) free: bool,
}

/// The credentials that a route accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Credentials {
    /// An optional key, token or session; the door decides who may call.
    Any,
    /// None: the route is the same for everybody, or its door checks the key itself. A stale key does not
    /// prevent the call.
    Ignored,
    /// A secret in the path, which the door looks up and charges.
    Door,
}

/// The access of other sites' pages to a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ForeignPages {
    /// None, because even reading changes something.
    Refused,
    /// `GET` requests, whose response the page cannot read; nothing that changes anything.
    Unread,
    /// Full access like any program: the route accepts no credentials that a browser adds by itself.
    Allowed,
}

/// A signed secret issued by this hub, which names its agent without a look-up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grant {
    /// The purpose. Calls are charged to the agent for this purpose.
    pub(crate) purpose: &'static str,
    /// Returns the agent it was issued to, if it is valid.
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
    /// A page, or another route that is the same for everybody.
    pub(crate) const PUBLIC: Self = Self { credentials: Credentials::Ignored, ..Self::RELAY };
}
