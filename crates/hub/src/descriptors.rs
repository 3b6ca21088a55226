//! File descriptors: raises the limit, and fits the number of connections to it.
//!
//! Each connection and each outbound request takes a descriptor. A hub that runs out of them cannot answer
//! anybody, not even a health check, so it does not accept more connections than fit.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Descriptors for the database, the log, mail, idle outbound connections, and agents that answer when their
/// job is done.
const RESERVE: u64 = 448;
/// The least number of connections. Below it a hub is useless even if it never runs out.
const FEWEST: u64 = 16;

/// The number of connections and outbound requests that a hub holds at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) connections: u64,
    pub(crate) webhooks: u64,
}

/// Raises the descriptor limit and returns the numbers that fit into it.
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

/// Raises the soft limit to the hard limit. Returns the resulting limit.
fn raise() -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    let soft = limit.current;
    limit.current = limit.maximum;
    // If raising is not permitted, the limit stays as it was.
    let current = if setrlimit(Resource::Nofile, limit).is_ok() { limit.maximum } else { soft };
    current.unwrap_or(u64::MAX)
}

fn within(limit: u64, wanted: Room) -> Room {
    let free = limit.saturating_sub(RESERVE);
    if wanted.connections.saturating_add(wanted.webhooks) <= free {
        return wanted;
    }
    // Outbound requests need less, because connections cause them.
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
            (10_704, 10_000, 256),
            (10_703, 9_999, 256),
            (4096, 3392, 256),
            (1024, 432, 144),
            (100, 16, 16),
        ] {
            let room = within(limit, wanted);
            assert_eq!((room.connections, room.webhooks), (connections, webhooks), "{limit}");
        }
        let none = Room { connections: 100, webhooks: u64::MAX };
        assert_eq!(within(1024, none), Room { connections: 100, webhooks: 144 });
    }

    #[test]
    fn the_limit_is_the_highest_there_is() {
        let limit = raise();
        assert!(limit >= 64);
        assert_eq!(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX), limit);
    }
}
