//! How many mails are sent in an hour: to one address, to one domain, in all.
//!
//! Strangers ask for mails to people they name, so what goes to a domain and in all is shared out by who asks, and an
//! address is counted last: what is refused for its asker's sake uses up nothing of whoever it was for. The limit of an address
//! never keeps its owner out: as long as mails are refused, one with a link that still works has arrived.
//! Addresses are kept as hashes.

use crate::budget::Budgets;
use crate::caller::key_hash;
use crate::quotas::{OFF, Quotas};
use crate::rate::{Limiter, Source};
use chorus_store::directory::KeyHash;
use std::time::Duration;

const HOUR: Duration = Duration::from_hours(1);

/// Who causes a mail to be sent.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Asker {
    /// Somebody who asked, from there.
    Source(Source),
    /// The hub itself, which tells people what becomes of what is theirs. Counted as if each had asked himself.
    Hub,
}

pub(crate) struct MailLimits {
    address: Option<Limiter<KeyHash>>,
    domain: Budgets<KeyHash, KeyHash>,
    hub: Budgets<(), KeyHash>,
}

impl MailLimits {
    pub(crate) fn new(quotas: &Quotas) -> Self {
        let address = (quotas.mails_address != OFF).then_some(quotas.mails_address);
        Self {
            address: address.map(|most| Limiter::at_once(most, HOUR)),
            domain: Budgets::new(quotas.mails_domain, HOUR),
            hub: Budgets::new(quotas.mails_hub, HOUR),
        }
    }

    /// Counts a mail, or says which limit it is past.
    pub(crate) fn take(&self, to: &str, asker: Asker, now_ms: i64) -> Result<(), &'static str> {
        let (address, domain) = fold(to);
        let asker = match asker {
            Asker::Source(source) => key_hash(&format!("{source:?}")),
            Asker::Hub => key_hash(&address),
        };
        self.hub.take((), asker, now_ms).map_err(|_| "mails_hub")?;
        self.domain.take(key_hash(&domain), asker, now_ms).map_err(|_| "mails_domain")?;
        let address = |limiter: &Limiter<_>| limiter.take(key_hash(&address), now_ms);
        self.address.as_ref().map_or(Ok(()), address).map_err(|_| "mails_address")
    }
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

    #[test]
    fn an_address_a_domain_the_hub() {
        let limits = MailLimits::new(&Quotas::default());
        for n in 0..5 {
            assert_eq!(limits.take(&format!("victim+{n}@a.example"), from(n), 0), Ok(()));
        }
        assert_eq!(limits.take("Victim@a.example", from(9), 0), Err("mails_address"));
        assert_eq!(limits.take("Victim@a.example", from(9), 12 * 60_000), Ok(()), "one each twelve minutes");
        let taken = |who, domain: &str| {
            (0..400).filter(|n| limits.take(&format!("{n}@{domain}"), from(who), 0).is_ok()).count()
        };
        let to_one = taken(1, "b.example");
        assert!((20..=30).contains(&to_one), "a tenth of a domain's: {to_one}");
        assert!(taken(2, "b.example") > 20, "and as much for the next");
        let spread = (0..400).filter(|n| limits.take(&format!("a@{n}.example"), from(3), 0).is_ok()).count();
        assert!((50..=100).contains(&spread), "a tenth of the hub's: {spread}");
        assert_eq!(limits.take("ann@c.example", from(4), 0), Ok(()));
        assert_eq!(limits.take("ann@c.example", Asker::Hub, 0), Ok(()));
    }

    /// What is refused because of who asks costs the address nothing.
    #[test]
    fn nobody_is_kept_from_his_own() {
        let limits = MailLimits::new(&Quotas { mails_hub: 20, ..Quotas::default() });
        for _ in 0..10 {
            limits.take("other@a.example", from(1), 0).ok();
        }
        for _ in 0..10 {
            assert_eq!(limits.take("ann@a.example", from(1), 0), Err("mails_hub"));
        }
        assert_eq!(limits.take("ann@a.example", from(2), 0), Ok(()));
    }
}
