//! Limits on outbound requests, so that nobody can use the hub to flood a server: a pure engine with time as
//! an argument (the duration since some moment).
//!
//! A sender takes a [`Slot`] before a socket is opened and keeps it until the request has ended, whether or
//! not anybody still waits for the outcome. There are limits per sender, per receiver, per host and port, and
//! in total. Within each of them, no source address may hold more than it leaves to others, so that one cannot
//! use it up. One server may have any number of names, so the addresses of a name are limited as well, but
//! less strictly: many names share one address at a large provider. An endpoint that fails again and again
//! rests for a while (`rests`).
//!
//! All tables are bounded: counts by the open requests, the rest by forgetting the least important entries. A
//! full table forgets history; it never refuses anybody.

mod limited;
mod rests;

pub use limited::Limited;
pub use rests::Verdict;

use crate::config::quotas::Quotas;
use crate::source::Source;
use chorus_protocol::ids::AgentId;
use rests::Rests;
use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use url::{Host as UrlHost, Url};

/// The most hosts and endpoints of which anything is remembered.
const REMEMBERED: usize = 10_000;
/// Hosts to which connections are kept open after a request, which bounds idle connections.
const KEPT_HOSTS: usize = 32;
/// The time for which idle connections are kept.
pub const KEEP: Duration = Duration::from_mins(1);
const MINUTE: Duration = Duration::from_mins(1);
/// The limit of an address and port, as a multiple of that of one host.
const NAMES_PER_ADDRESS: u64 = 4;

/// A host and port, in one spelling.
pub type Host = Arc<str>;

/// The host and port of a URL.
pub fn host_of(url: &Url) -> Host {
    let port = url.port_or_known_default().unwrap_or_default();
    match url.host() {
        Some(UrlHost::Domain(name)) => format!("{}:{port}", name.trim_end_matches('.')).into(),
        Some(UrlHost::Ipv4(address)) => format!("{address}:{port}").into(),
        Some(UrlHost::Ipv6(address)) => format!("{}:{port}", address.to_canonical()).into(),
        None => "".into(),
    }
}

/// The cause of a request: a caller's send, or a push of the hub itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    Send(Source),
    Push,
}

/// A party whose requests are counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Party {
    Sender(AgentId),
    Cause(Cause),
    Receiver(AgentId),
    Host(Host),
    Address(SocketAddr),
    CauseAtReceiver(Cause, AgentId),
    CauseAtHost(Cause, Host),
    CauseAtAddress(Cause, SocketAddr),
}

/// The target and the sender of a request.
#[derive(Debug, Clone)]
pub struct Endpoint {
    pub receiver: AgentId,
    /// Nobody, if it is a push.
    pub sender: Option<AgentId>,
    pub cause: Cause,
    pub host: Host,
}

#[derive(Debug)]
struct State {
    all: u64,
    open: HashMap<Party, u64>,
    /// The time at which the per-minute allowance of a host or address is full again, in total and for one
    /// source.
    whole_at: HashMap<Party, Duration>,
    rests: Rests,
    /// Hosts to which connections are kept, and since when.
    kept: HashMap<Host, Duration>,
}

/// The limits on outbound requests. See the [module](self).
#[derive(Debug)]
pub struct OutboundLimits {
    quotas: Quotas,
    state: Mutex<State>,
}

impl OutboundLimits {
    /// `rest` is how long an endpoint rests at first.
    pub fn new(quotas: Quotas, rest: Duration) -> Arc<Self> {
        let state = State {
            all: 0,
            open: HashMap::new(),
            whole_at: HashMap::new(),
            rests: Rests::new(rest),
            kept: HashMap::new(),
        };
        Arc::new(Self { quotas, state: Mutex::new(state) })
    }

    /// A place for something that is sent, among those that its sender and source may have and in all. The request needs
    /// one of [`Self::begin`] besides, once it is known where it goes.
    pub fn begin_send(self: &Arc<Self>, sender: AgentId, cause: Cause) -> Result<Slot, Limited> {
        let mut state = self.state();
        self.check_share(&state, cause)?;
        let limit = self.quotas.webhooks_sender;
        if state.count(&Party::Sender(sender)) >= limit {
            return Err(Limited::Sender(limit));
        }
        Ok(state.take(self, vec![Party::Sender(sender), Party::Cause(cause)], true))
    }

    /// Takes a slot for a request, and returns whether its connection may be kept. A send already has its slot
    /// in the total.
    pub fn begin(self: &Arc<Self>, to: &Endpoint, now: Duration) -> Result<(Slot, bool), Limited> {
        let mut state = self.state();
        let push = to.sender.is_none();
        if let Some(wait) = state.rests.wait(to, now) {
            return Err(Limited::Rests(wait));
        }
        let Quotas { webhooks_receiver, webhooks_host, webhooks_host_minute, .. } = self.quotas;
        if push {
            self.check_share(&state, Cause::Push)?;
        }
        let (receiver, host) = (to.receiver, || Arc::clone(&to.host));
        let parties = [
            (Party::Receiver(receiver), Party::CauseAtReceiver(to.cause, receiver), webhooks_receiver),
            (Party::Host(host()), Party::CauseAtHost(to.cause, host()), webhooks_host),
        ];
        for (n, (whole, share, limit)) in parties.iter().enumerate() {
            if !state.has_room(whole, share, *limit) {
                return Err(if n == 0 { Limited::Receiver(*limit) } else { Limited::Host(*limit) });
            }
        }
        let of_minute = [(Party::Host(host()), Party::CauseAtHost(to.cause, host()))];
        state.take_of_minute(&of_minute, webhooks_host_minute, now)?;
        let keep = state.keep(&to.host, now);
        let mut parties: Vec<_> = parties.into_iter().flat_map(|(whole, share, _)| [whole, share]).collect();
        parties.extend(push.then_some(Party::Cause(Cause::Push)));
        Ok((state.take(self, parties, push), keep))
    }

    /// Gives a request a place at every address that the name of its host has, besides those it has.
    pub fn begin_at(
        &self,
        slot: &mut Slot,
        cause: Cause,
        addresses: &[IpAddr],
        port: u16,
        now: Duration,
    ) -> Result<(), Limited> {
        let limit = self.quotas.webhooks_host.saturating_mul(NAMES_PER_ADDRESS);
        let of_minute = self.quotas.webhooks_host_minute.saturating_mul(NAMES_PER_ADDRESS);
        let places: Vec<_> = addresses
            .iter()
            .map(|address| SocketAddr::new(address.to_canonical(), port))
            .map(|address| (Party::Address(address), Party::CauseAtAddress(cause, address)))
            .collect();
        let mut state = self.state();
        if !places.iter().all(|(whole, share)| state.has_room(whole, share, limit)) {
            return Err(Limited::Host(limit));
        }
        state.take_of_minute(&places, of_minute, now)?;
        let parties: Vec<_> = places.into_iter().flat_map(|(whole, share)| [whole, share]).collect();
        state.open(&parties);
        slot.parties.extend(parties);
        Ok(())
    }

    /// Nobody holds more than it leaves to others.
    fn check_share(&self, state: &State, cause: Cause) -> Result<(), Limited> {
        let left = self.quotas.webhooks.saturating_sub(state.all);
        if left == 0 {
            return Err(Limited::All(self.quotas.webhooks));
        }
        if state.count(&Party::Cause(cause)) >= left { Err(Limited::Share) } else { Ok(()) }
    }

    /// Notes what came of a request.
    pub fn note(&self, to: &Endpoint, verdict: Verdict, now: Duration) {
        self.state().rests.note(to, verdict, now);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn count(&self, party: &Party) -> u64 {
        self.open.get(party).copied().unwrap_or_default()
    }

    /// Returns whether there is room for one more, if no party may hold more than it leaves to others.
    fn has_room(&self, whole: &Party, share: &Party, limit: u64) -> bool {
        self.count(share) < limit.saturating_sub(self.count(whole))
    }

    fn open(&mut self, parties: &[Party]) {
        for party in parties {
            *self.open.entry(party.clone()).or_default() += 1;
        }
    }

    fn take(&mut self, limits: &Arc<OutboundLimits>, parties: Vec<Party>, in_all: bool) -> Slot {
        self.all += u64::from(in_all);
        self.open(&parties);
        Slot { limits: Arc::clone(limits), parties, in_all }
    }

    fn give_back(&mut self, slot: &Slot) {
        self.all -= u64::from(slot.in_all);
        for party in &slot.parties {
            if let Some(count) = self.open.get_mut(party) {
                *count -= 1;
                if *count == 0 {
                    self.open.remove(party);
                }
            }
        }
    }

    /// Takes one of a minute's at each of these places, in all and for one source, or none. All of a minute's may come at
    /// once; then they come back evenly.
    fn take_of_minute(
        &mut self,
        places: &[(Party, Party)],
        limit: u64,
        now: Duration,
    ) -> Result<(), Limited> {
        let Ok(count) = u32::try_from(limit) else { return Ok(()) };
        let allowances =
            places.iter().flat_map(|(whole, share)| [(whole, count), (share, count.div_ceil(2))]);
        let mut taken = vec![];
        for (key, count) in allowances {
            let next = self.whole_at.get(key).map_or(now, |at| now.max(*at)) + MINUTE / count.max(1);
            let wait = next.saturating_sub(now).saturating_sub(MINUTE);
            if !wait.is_zero() {
                return Err(Limited::HostMinute { limit, wait });
            }
            taken.push((key, next));
        }
        for (key, next) in taken {
            make_room(&mut self.whole_at, key, |at| *at > now);
            self.whole_at.insert(key.clone(), next);
        }
        Ok(())
    }

    fn keep(&mut self, host: &Host, now: Duration) -> bool {
        if self.kept.len() >= KEPT_HOSTS && !self.kept.contains_key(host) {
            self.kept.retain(|_, at| *at + KEEP > now);
        }
        let keep = self.kept.len() < KEPT_HOSTS || self.kept.contains_key(host);
        if keep {
            self.kept.insert(Arc::clone(host), now);
        }
        keep
    }
}

/// Room for `key`: those that do not matter any more go, and if all do, any one.
fn make_room<K: Eq + Hash + Clone, V>(table: &mut HashMap<K, V>, key: &K, matters: impl Fn(&V) -> bool) {
    if table.len() < REMEMBERED || table.contains_key(key) {
        return;
    }
    table.retain(|_, value| matters(value));
    if table.len() >= REMEMBERED
        && let Some(any) = table.keys().next().cloned()
    {
        table.remove(&any);
    }
}

/// A place among what is open; given back when it is dropped.
#[derive(Debug)]
pub struct Slot {
    limits: Arc<OutboundLimits>,
    parties: Vec<Party>,
    in_all: bool,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.limits.state().give_back(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::quotas::OFF;
    use crate::source::rate_key;
    use uuid::Uuid;

    pub(super) const REST: Duration = Duration::from_secs(30);

    pub(super) fn agent(n: u128) -> AgentId {
        AgentId(Uuid::from_u128(n))
    }

    pub(super) fn limits(change: impl FnOnce(&mut Quotas)) -> Arc<OutboundLimits> {
        let mut quotas = Quotas::default();
        change(&mut quotas);
        OutboundLimits::new(quotas, REST)
    }

    pub(super) fn to(receiver: u128, host: &str) -> Endpoint {
        Endpoint { receiver: agent(receiver), sender: Some(agent(1)), cause: cause(1), host: host.into() }
    }

    fn cause(n: u8) -> Cause {
        Cause::Send(rate_key(IpAddr::from([192, 0, 2, n])))
    }

    #[test]
    fn places_are_limited_and_given_back() {
        let (limits, now) = (limits(|_| ()), Duration::ZERO);
        let begin = |n: u128, from: u8| limits.begin(&Endpoint { cause: cause(from), ..to(n, "a:443") }, now);
        let mut slots: Vec<_> = (0..8).map(|_| begin(7, 1).unwrap()).collect();
        assert_eq!(begin(7, 1).unwrap_err(), Limited::Receiver(16), "no more than it leaves to others");
        slots.extend((0..4).map(|_| begin(7, 2).unwrap()));
        assert_eq!(begin(7, 2).unwrap_err(), Limited::Receiver(16));
        assert_eq!(begin(8, 1).unwrap_err(), Limited::Host(20), "whoever receives there");
        slots.push(begin(8, 3).unwrap());
        let elsewhere = limits.begin(&to(8, "a:80"), now).unwrap();
        let many: Vec<_> = (0..=255).filter_map(|n| begin(9 + u128::from(n), n).ok()).collect();
        assert_eq!(slots.len() + many.len(), 20);
        drop((slots, many));
        slots = vec![begin(7, 1).unwrap()];
        drop((slots, elsewhere));
        let state = limits.state();
        assert!(state.all == 0 && state.open.is_empty(), "{state:?}");
    }

    #[test]
    fn a_sender_has_a_limit_and_a_source_leaves_as_much_as_it_takes() {
        let (limits, now) = (limits(|quotas| quotas.webhooks = 40), Duration::ZERO);
        let mut slots = vec![];
        let mut send = |sender: u128, cause: Cause, host: u128| {
            let place = limits.begin_send(agent(sender), cause)?;
            let to = Endpoint {
                receiver: agent(host),
                sender: Some(agent(sender)),
                cause,
                host: host.to_string().into(),
            };
            slots.push((place, limits.begin(&to, now)?));
            Ok::<_, Limited>(())
        };
        let many = |result: &mut dyn FnMut() -> Result<(), Limited>| {
            (0..).find_map(|n| result().err().map(|why| (n, why)))
        };
        let mut n = 100;
        assert_eq!(
            many(&mut || {
                n += 1;
                send(1, cause(1), n)
            }),
            Some((20, Limited::Share))
        );
        assert_eq!(
            many(&mut || {
                n += 1;
                send(n, cause(1), n)
            }),
            Some((0, Limited::Share)),
            "as anybody else"
        );
        assert_eq!(
            many(&mut || {
                n += 1;
                send(2, cause(2), n)
            }),
            Some((10, Limited::Share))
        );
        assert_eq!(
            many(&mut || {
                n += 1;
                send(3, cause(3), n)
            }),
            Some((5, Limited::Share))
        );
        // Pushes as well.
        let push = Endpoint { sender: None, cause: Cause::Push, ..to(9, "p") };
        let pushes: Vec<_> = (0..10).map_while(|_| limits.begin(&push, now).ok()).collect();
        assert_eq!(pushes.len(), 3);
        drop((slots, pushes));
        let wide = self::limits(|quotas| quotas.webhooks = OFF);
        let places: Vec<_> = (0..100).map_while(|_| wide.begin_send(agent(1), cause(1)).ok()).collect();
        assert_eq!(places.len(), 32);
        assert_eq!(wide.begin_send(agent(1), cause(2)).unwrap_err(), Limited::Sender(32));
    }

    #[test]
    fn a_minutes_worth_for_a_host() {
        let (limits, now) = (limits(|_| ()), Duration::ZERO);
        let begin = |from: u8, host: &str, now| {
            limits.begin(&Endpoint { cause: cause(from), ..to(7, host) }, now).map(|_| ())
        };
        for _ in 0..300 {
            begin(1, "a:443", now).unwrap();
        }
        let wait = Duration::from_millis(200);
        assert_eq!(begin(1, "a:443", now), Err(Limited::HostMinute { limit: 600, wait }), "half of it");
        assert_eq!(begin(1, "b:443", now), Ok(()));
        for _ in 0..300 {
            begin(2, "a:443", now).unwrap();
        }
        let wait = Duration::from_millis(100);
        assert_eq!(begin(3, "a:443", now), Err(Limited::HostMinute { limit: 600, wait }));
        assert_eq!(begin(3, "a:443", now + wait), Ok(()));
        assert!(begin(3, "a:443", now + wait).is_err());
    }

    /// As many names as one likes for one server: it gets four times what one host does, at a time and in a minute.
    #[test]
    fn many_names_of_one_address() {
        let (limits, now) = (limits(|_| ()), Duration::ZERO);
        let victim = IpAddr::from([198, 51, 100, 1]);
        let begin = |name: u128, from: u8, addresses: &[IpAddr], port: u16| {
            let to = Endpoint { cause: cause(from), ..to(name, &format!("{name}.example:{port}")) };
            let (mut slot, _) = limits.begin(&to, now)?;
            limits.begin_at(&mut slot, to.cause, addresses, port, now)?;
            Ok::<_, Limited>(slot)
        };
        let many =
            |from| (0..200).map_while(|name| begin(name, from, &[victim], 443).ok()).collect::<Vec<_>>();
        let held = many(1);
        assert_eq!(held.len(), 40, "no more than it leaves to others");
        assert_eq!(begin(900, 1, &[victim], 443).unwrap_err(), Limited::Host(80));
        let others = [IpAddr::from([198, 51, 100, 2]), victim.to_canonical()];
        assert_eq!(begin(900, 1, &others, 443).unwrap_err(), Limited::Host(80), "nor behind another address");
        assert!(begin(900, 1, &others[..1], 443).is_ok(), "which was not counted");
        assert!(begin(900, 1, &[victim], 80).is_ok(), "another port is another server");
        assert_eq!(many(2).len(), 20);
        drop(held);
        let state = limits.state();
        assert!(state.all == 0 && state.open.is_empty(), "{state:?}");
        drop(state);

        let (limits, names) = (self::limits(|_| ()), || 0..200);
        let begin = |name: u128| {
            let (mut slot, _) = limits.begin(&to(name, &format!("{name}.example:443")), now)?;
            limits.begin_at(&mut slot, cause(1), &[victim], 443, now)
        };
        let taken = names().flat_map(|name| [name; 10]).filter(|name| begin(*name).is_ok()).count();
        assert_eq!(taken, 1200, "half of what an address gets in a minute");
        assert!(matches!(begin(900), Err(Limited::HostMinute { limit: 2400, .. })));
    }

    #[test]
    fn full_tables_forget_and_refuse_nobody() {
        let (limits, now) = (limits(|_| ()), Duration::ZERO);
        for n in 0..REMEMBERED + 50 {
            let to = to(n as u128, &format!("{n}:443"));
            limits.begin(&to, now).unwrap();
            for _ in 0..10 {
                limits.note(&to, Verdict::Silent, now);
            }
        }
        let state = limits.state();
        assert_eq!((state.rests.len(), state.whole_at.len()), (REMEMBERED, REMEMBERED));
        assert_eq!(state.kept.len(), KEPT_HOSTS);
    }

    #[test]
    fn one_spelling_of_a_host() {
        for (url, host) in [
            ("https://Example.com./x", "example.com:443"),
            ("http://example.com:8080", "example.com:8080"),
            ("http://[::ffff:192.0.2.1]/", "192.0.2.1:80"),
            ("http://0xc0000201/", "192.0.2.1:80"),
        ] {
            assert_eq!(&*host_of(&Url::parse(url).unwrap()), host);
        }
    }
}
