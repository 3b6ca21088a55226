//! Limits mails per hour: to one address, to one domain and in total.
//!
//! Strangers can cause mails to people they name, so every limit is shared between askers. The domain and the
//! total are counted at the request, whether or not a mail is sent: otherwise the arrival of one's own mail
//! would reveal mails to others. The address is counted last, and only for mails that are really sent. A mail
//! that is not sent, or is refused because of its asker, uses up nothing of its recipient's limit. The limit
//! of an address never locks its owner out: no source can take everything at once, and the allowance returns
//! within the lifetime of a link. Notices of the hub itself are counted separately, out of strangers' reach.
//! Addresses are kept as hashes.

use crate::caller::key_hash;
use crate::config::quotas::{OFF, Quotas};
use crate::limits::fair_share::FairShare;
use crate::limits::rate::Limiter;
use crate::source::Source;
use chorus_store::directory::KeyHash;
use std::time::Duration;

const HOUR: Duration = Duration::from_hours(1);

/// The cause of a mail.
#[derive(Debug, Clone, Copy)]
pub enum Asker {
    /// Somebody who asked, from there.
    Source(Source),
    /// The hub itself, for notices to people.
    Hub(Notice),
}

/// A kind of notice from the hub. Each kind is counted separately.
#[derive(Debug, Clone, Copy)]
pub enum Notice {
    BrokenConnection,
    ReplacedKey,
    Waiting,
}

pub struct MailLimits {
    asked: Shared,
    notices: Shared,
    address: Option<PerAddress>,
}

/// The quotas that all askers share.
struct Shared {
    domain: FairShare<KeyHash, KeyHash>,
    hub: FairShare<(), KeyHash>,
}

struct PerAddress {
    all: Limiter<KeyHash>,
    /// Of an address and who asks for mails to it.
    of_asker: Limiter<(KeyHash, KeyHash)>,
    /// Limits notices by address and kind.
    notices: Limiter<KeyHash>,
}

impl Shared {
    fn new(quotas: &Quotas) -> Self {
        Self {
            domain: FairShare::new(quotas.mails_domain, HOUR),
            hub: FairShare::new(quotas.mails_hub, HOUR),
        }
    }
}

impl PerAddress {
    fn new(most: u64) -> Self {
        // One source gets two fifths at once. They return at the full rate, so that a lone source can use
        // everything.
        let share = (most / 5 * 2 + most % 5 * 2 / 5).max(1);
        Self {
            all: Limiter::at_once(most, HOUR),
            of_asker: Limiter::some_at_once(share, most, HOUR),
            notices: Limiter::at_once(most, HOUR),
        }
    }
}

impl MailLimits {
    pub fn new(quotas: &Quotas) -> Self {
        let address = (quotas.mails_address != OFF).then(|| PerAddress::new(quotas.mails_address));
        Self { asked: Shared::new(quotas), notices: Shared::new(quotas), address }
    }

    /// Counts a possible mail for its asker, or returns the exceeded limit.
    pub fn ask(&self, to: &str, asker: Asker, now_ms: i64) -> Result<(), &'static str> {
        let (address, domain) = fold(to);
        let (shared, asker) = match asker {
            Asker::Source(source) => (&self.asked, source_hash(source)),
            // As if each had asked himself.
            Asker::Hub(_) => (&self.notices, key_hash(&address)),
        };
        shared.hub.take((), asker, now_ms).map_err(|_| "mails_hub")?;
        shared.domain.take(key_hash(&domain), asker, now_ms).map_err(|_| "mails_domain")
    }

    /// Counts a mail that was asked for and is about to be sent, or says which limit it is past.
    pub fn take(&self, to: &str, asker: Asker, now_ms: i64) -> Result<(), &'static str> {
        let Some(limits) = &self.address else { return Ok(()) };
        let (address, _) = fold(to);
        let taken = match asker {
            Asker::Source(source) => {
                let address = key_hash(&address);
                let of_asker = limits.of_asker.take((address, source_hash(source)), now_ms);
                of_asker.and_then(|()| limits.all.take(address, now_ms))
            }
            Asker::Hub(notice) => limits.notices.take(key_hash(&format!("{notice:?} {address}")), now_ms),
        };
        taken.map_err(|_| "mails_address")
    }
}

fn source_hash(source: Source) -> KeyHash {
    key_hash(&format!("{source:?}"))
}

/// Returns one spelling for all addresses of a mailbox, and its domain. The case of letters, quotes with their backslashes, and
/// the part after a `+` make no difference.
fn fold(to: &str) -> (String, String) {
    let folded = to.to_lowercase();
    let (name, domain) = folded.rsplit_once('@').unwrap_or(("", &folded));
    let name = name.replace(['"', '\\'], "");
    let (name, domain) = (name.split('+').next().unwrap_or_default(), domain.trim_end_matches('.'));
    (format!("{name}@{domain}"), domain.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::rate_key;

    fn from(last: u8) -> Asker {
        Asker::Source(rate_key([192, 0, 2, last].into()))
    }

    #[test]
    fn one_mailbox_has_many_names() {
        let (ann, mail) = ("ann@mail.example".to_owned(), "mail.example".to_owned());
        let names = [
            "ann@mail.example",
            "Ann+1@MAIL.example",
            "ann+a+b@mail.example.",
            "\"ann\"@mail.example",
            "\"a\\nn\"@mail.example",
        ];
        for name in names {
            assert_eq!(fold(name), (ann.clone(), mail.clone()), "{name}");
        }
        assert_ne!(fold("anna@mail.example").0, ann);
    }

    fn both(limits: &MailLimits, to: &str, asker: Asker, now_ms: i64) -> Result<(), &'static str> {
        limits.ask(to, asker, now_ms).and_then(|()| limits.take(to, asker, now_ms))
    }

    #[test]
    fn an_address_a_domain_the_hub() {
        let limits = MailLimits::new(&Quotas::default());
        for n in 0..5 {
            assert_eq!(both(&limits, &format!("victim+{n}@a.example"), from(n), 0), Ok(()));
        }
        assert_eq!(both(&limits, "Victim@a.example", from(9), 0), Err("mails_address"));
        assert_eq!(
            both(&limits, "Victim@a.example", from(9), 12 * 60_000),
            Ok(()),
            "one each twelve minutes"
        );
        let taken = |who, domain: &str| {
            (0..400).filter(|n| both(&limits, &format!("{n}@{domain}"), from(who), 0).is_ok()).count()
        };
        let to_one = taken(1, "b.example");
        assert!((20..=30).contains(&to_one), "a tenth of a domain's: {to_one}");
        assert!(taken(2, "b.example") > 20, "and as much for the next");
        let spread =
            (0..400).filter(|n| both(&limits, &format!("a@{n}.example"), from(3), 0).is_ok()).count();
        assert!((50..=100).contains(&spread), "a tenth of the hub's: {spread}");
        assert_eq!(both(&limits, "ann@c.example", from(4), 0), Ok(()));
    }

    /// A mail that is refused because of its asker, or not sent, costs the address nothing.
    #[test]
    fn nobody_is_kept_from_his_own() {
        let limits = MailLimits::new(&Quotas { mails_hub: 20, ..Quotas::default() });
        for _ in 0..10 {
            limits.ask("ann@a.example", from(1), 0).ok();
        }
        for _ in 0..10 {
            assert_eq!(both(&limits, "ann@a.example", from(1), 0), Err("mails_hub"));
        }
        assert_eq!(both(&limits, "ann@a.example", from(2), 0), Ok(()));
    }

    #[test]
    fn one_source_leaves_something_of_an_address_to_others() {
        let limits = MailLimits::new(&Quotas::default());
        let taken =
            |who, now_ms| (0..20).filter(|_| limits.take("ann@a.example", from(who), now_ms).is_ok()).count();
        assert_eq!((taken(1, 0), taken(2, 0), taken(3, 0), taken(4, 0)), (2, 2, 1, 0));
        // One who goes on and on does not get the others' either.
        let limits = MailLimits::new(&Quotas::default());
        for minute in 0..600 {
            let sent = limits.take("ann@a.example", from(1), minute * 60_000).is_ok();
            assert_eq!(sent, minute < 2 || minute % 12 == 0, "{minute}: no link ends before the next");
        }
        let ann = |_: &i32| limits.take("ann@a.example", from(2), 600 * 60_000 - 1).is_ok();
        assert_eq!((0..5).filter(ann).count(), 2);
        for (most, share) in [(1, 1), (2, 1), (5, 2), (20, 8), (u64::MAX - 1, 20)] {
            let limits = MailLimits::new(&Quotas { mails_address: most, ..Quotas::default() });
            let taken = (0..20).filter(|_| limits.take("ann@a.example", from(1), 0).is_ok()).count();
            assert_eq!(taken, share, "of {most}");
        }
    }

    #[test]
    fn what_the_hub_tells_is_counted_apart() {
        let limits = MailLimits::new(&Quotas { mails_hub: 200, mails_domain: 200, ..Quotas::default() });
        for n in 0..=254 {
            both(&limits, "ann@a.example", from(n), 0).ok();
        }
        assert_eq!(both(&limits, "ann@a.example", from(255), 0), Err("mails_hub"), "nothing is left");
        for notice in [Notice::BrokenConnection, Notice::ReplacedKey] {
            let told =
                (0..9).filter(|_| both(&limits, "ann@a.example", Asker::Hub(notice), 0).is_ok()).count();
            assert_eq!(told, 5, "{notice:?}");
        }
    }
}
