//! All trail entries about one event, in the order of time: sends, decisions, claims, tool calls and
//! dispositions.
//!
//! The entries are those of the lists by kind, merged. A page ends where one kind has more rows than were
//! read, so that no entry is skipped.

use super::{Asked, Found, LOOKED_AT, OF_HUB, about as of_one_kind, wrong_place};
use chorus_node::Error;
use chorus_protocol::api::audit::{TrailEntry, TrailKind};
use chorus_protocol::ids::EventId;
use chorus_protocol::time::parse_rfc3339;
use chorus_store::{Tx, audit};
use uuid::Uuid;

/// The kinds, in their order at the same time.
const KINDS: [TrailKind; 5] =
    [TrailKind::Send, TrailKind::Decision, TrailKind::Claim, TrailKind::ToolCall, TrailKind::Disposition];

/// The cursor: a time, an index into the kinds, and a cursor within that kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place(i64, usize, String);

impl Place {
    fn read(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '.');
        let (at, kind) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        Some(Self(at, kind, parts.next()?.to_owned())).filter(|place| place.1 < KINDS.len())
    }

    fn write(&self) -> String {
        let Self(at, kind, cursor) = self;
        format!("{at}.{kind}.{cursor}")
    }
}

pub(super) fn about(tx: &mut dyn Tx, asked: &Asked, event: EventId) -> Result<Found, Error> {
    let after = asked.after.as_deref().map(|text| Place::read(text).ok_or_else(wrong_place)).transpose()?;
    let since = after.as_ref().map_or(asked.since, |place| asked.since.max(place.0));
    let (mut found, mut end) = (vec![], None);
    for (rank, kind) in KINDS.into_iter().enumerate() {
        let is_here = |place: &&Place| kind == TrailKind::ToolCall && KINDS[place.1] == kind;
        let place = after.as_ref().filter(is_here).map(|place| place.2.clone());
        let one = Asked { kind, since, after: place, limit: LOOKED_AT, ..asked.clone() };
        let (entries, next) = of_one_kind(tx, &one, event)?;
        found.extend(entries.into_iter().map(|entry| {
            let at = parse_rfc3339(&entry.at).unwrap_or_default();
            (Place(at, rank, entry.cursor.clone()), entry)
        }));
        end = end.or(next.and_then(|next| {
            let last = Uuid::try_parse(next.strip_prefix(OF_HUB)?).ok()?;
            Some(Place(audit::time_of(last), rank, next))
        }));
    }
    found.retain(|(place, _)| {
        let is_after = after.as_ref().is_none_or(|after| place > after);
        is_after && place.0 >= asked.since && end.as_ref().is_none_or(|end| place <= end)
    });
    found.sort_by(|one, other| one.0.cmp(&other.0));
    if found.len() as i64 > asked.limit {
        found.truncate(asked.limit as usize);
        end = found.last().map(|(place, _)| place.clone());
    }
    let placed = |(place, entry): (Place, TrailEntry)| TrailEntry { cursor: place.write(), ..entry };
    Ok((found.into_iter().map(placed).collect(), end.map(|end| end.write())))
}
