//! File descriptors: as many as the system gives, and no more promised than there are.
//!
//! Each connection and each request to an endpoint takes one. A hub that runs out of them answers nobody, not even whoever
//! asks for its health, so what does not fit is not accepted in the first place.

use rustix::process::{Resource, getrlimit, setrlimit};

/// For the database, the log, mail, and connections to endpoints that are kept for the next request.
const RESERVE: u64 = 320;
/// A hub with fewer connections than this is of no use; then one that runs out may still be.
const FEWEST: u64 = 16;

/// What a hub holds at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) connections: u64,
    pub(crate) webhooks: u64,
}

/// Raises the limit as far as it goes, and says what fits into it.
pub(crate) fn fit(wanted: Room) -> Room {
    let limit = raise();
    let room = within(limit, wanted);
    if room != wanted {
        tracing::warn!(
            limit,
            needed = wanted.connections.saturating_add(wanted.webhooks).saturating_add(RESERVE),
            connections = room.connections,
            webhooks = room.webhooks,
            "there are too few file descriptors for CHORUS_MAX_CONNECTIONS and CHORUS_QUOTA_WEBHOOKS: the hub accepts \
             less than they say; raise the hard limit (ulimit -Hn, LimitNOFILE= of systemd) or lower them"
        );
    }
    room
}

/// How many descriptors this process may have, now that it may have the most.
fn raise() -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    let soft = limit.current;
    limit.current = limit.maximum;
    // Where that is not allowed, it stays as it was.
    let current = if setrlimit(Resource::Nofile, limit).is_ok() { limit.maximum } else { soft };
    current.unwrap_or(u64::MAX)
}

fn within(limit: u64, wanted: Room) -> Room {
    let free = limit.saturating_sub(RESERVE);
    if wanted.connections.saturating_add(wanted.webhooks) <= free {
        return wanted;
    }
    // Requests to endpoints are the smaller part, and come of connections.
    let webhooks = wanted.webhooks.min(free / 4).max(FEWEST);
    Room { connections: wanted.connections.min(free.saturating_sub(webhooks)).max(FEWEST), webhooks }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits() {
        let wanted = Room { connections: 10_000, webhooks: 256 };
        for (limit, connections, webhooks) in [
            (u64::MAX, 10_000, 256),
            (10_576, 10_000, 256),
            (10_575, 9_999, 256),
            (4096, 3520, 256),
            (1024, 528, 176),
            (100, 16, 16),
        ] {
            let room = within(limit, wanted);
            assert_eq!((room.connections, room.webhooks), (connections, webhooks), "{limit}");
        }
        let none = Room { connections: 100, webhooks: u64::MAX };
        assert_eq!(within(1024, none), Room { connections: 100, webhooks: 176 });
    }

    #[test]
    fn the_limit_is_the_highest_there_is() {
        let limit = raise();
        assert!(limit >= 64);
        assert_eq!(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX), limit);
    }
}
