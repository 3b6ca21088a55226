//! Getting what is committed to where it belongs: `live` hands it to open connections on this node, `frames` keeps
//! what was just encoded for them, `outbound` reaches out to agents' endpoints, `replies` knows who waits for a streamed
//! answer, `reconcile` keeps all of it true.

pub(crate) mod frames;
pub(crate) mod live;
pub mod outbound;
pub(crate) mod reconcile;
pub(crate) mod replies;
