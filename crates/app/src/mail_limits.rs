//! How many mails are sent in an hour: to one address, to one domain, in all.
//!
//! Strangers ask for mails to people they name, so everything is shared out by who asks. What goes to a domain and in all is
//! counted when it is asked for, whether or not a mail comes of it: whether one's own mail arrives must not tell whether there
//! was one for somebody else. An address is counted last, and only mails that are really sent to it: what is not sent, or
//! refused for its asker's sake, uses up nothing of whoever it was for. The limit of an address never keeps its owner out: no
//! source takes so much at once that nothing is left for others, and what comes back does so within the life of a link. What
//! the hub itself has to tell people is counted apart, where no stranger reaches. Addresses are kept as hashes.

use crate::budget::Budgets;
use crate::caller::key_hash;
use crate::quotas::{OFF, Quotas};
use crate::rate::{Limiter, Source};
use chorus_store::directory::KeyHash;
use std::time::Duration;

const HOUR: Duration = Duration::from_hours(1);

/// Who causes a mail to be sent.
#[derive(Debug, Clone, Copy)]
pub enum Asker {
    /// Somebody who asked, from there.
    Source(Source),
    /// The hub itself, which tells people what becomes of what is theirs.
    Hub(Notice),
}

/// What the hub tells people. Of each there may be many without the others.
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

/// What all share.
struct Shared {
    domain: Budgets<KeyHash, KeyHash>,
    hub: Budgets<(), KeyHash>,
}

struct PerAddress {
    all: Limiter<KeyHash>,
    /// Of an address and who asks for mails to it.
    of_asker: Limiter<(KeyHash, KeyHash)>,
    /// Of an address and what it is told.
    notices: Limiter<KeyHash>,
}

impl Shared {
    fn new(quotas: &Quotas) -> Self {
        Self { domain: Budgets::new(quotas.mails_domain, HOUR), hub: Budgets::new(quotas.mails_hub, HOUR) }
    }
}

impl PerAddress {
    fn new(most: u64) -> Self {
        // Two of five at once. They come back as fast as all of them do, so that whoever is alone gets them all.
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

    /// Counts what may end in a mail for whoever asks for it, or says which limit it is past.
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

/// A mailbox by whatever name it is written to, and its domain: letters' case and what follows a `+` make no difference.
fn fold(to: &str) -> (String, String) {
    let folded = to.to_lowercase();
    let (name, domain) = folded.rsplit_once('@').unwrap_or(("", &folded));
    let (name, domain) = (name.split('+').next().unwrap_or_default(), domain.trim_end_matches('.'));
    (format!("{name}@{domain}"), domain.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate::rate_key;

    fn from(last: u8) -> Asker {
        Asker::Source(rate_key([192, 0, 2, last].into()))
    }

    #[test]
    fn one_mailbox_has_many_names() {
        let (ann, mail) = ("ann@mail.example".to_owned(), "mail.example".to_owned());
        for name in ["ann@mail.example", "Ann+1@MAIL.example", "ann+a+b@mail.example."] {
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

    /// What is refused because of who asks costs the address nothing, nor does what is not sent.
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
