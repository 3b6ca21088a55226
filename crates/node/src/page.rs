//! Pages of lists: as much as was asked for, and as fits.

use crate::app::App;
use chorus_protocol::api::Items;
use serde::Serialize;

/// Of one more than `limit` things that were asked for, those that fit, and where the next page begins.
pub fn page<T: Serialize>(
    app: &App,
    mut items: Vec<T>,
    limit: i64,
    cursor: impl Fn(&T) -> String,
) -> Items<T> {
    let more = items.len() as i64 > limit;
    items.truncate(limit.max(0) as usize);
    let next = items.last().filter(|_| more).map(&cursor);
    fitting(app, items, next, cursor)
}

/// A page that was read already, as far as it fits.
pub fn fitting<T: Serialize>(
    app: &App,
    mut items: Vec<T>,
    mut next: Option<String>,
    cursor: impl Fn(&T) -> String,
) -> Items<T> {
    if chorus_protocol::page::cut(&mut items, app.config.quotas.page_bytes) {
        next = items.last().map(cursor);
    }
    Items { items, next }
}
