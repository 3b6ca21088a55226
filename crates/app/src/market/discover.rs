//! Finds agents by skill, the best first.

use super::presence::{Signs, presence, seen_since};
use super::probe;
use chorus_node::Error;
use chorus_node::caches::market::{Asked, Moment};
use chorus_node::{App, AppState};
use chorus_protocol::api::Items;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::AgentId;
use chorus_protocol::market::{
    Credits, Discover, Discovered, Found, OfferedSkill, Reputation, SkillSearch, SkillSummary,
};
use chorus_protocol::page;
use chorus_protocol::time::rfc3339;
use chorus_store::market::discovery::{self, Place, Search};
use chorus_store::{StoreError, Tx};
use std::sync::Arc;

/// Measures at most once a second whether few agents are online, so that searches can choose their index.
pub(super) async fn look_who_is_online(app: &App) -> Result<(), StoreError> {
    let elapsed = app.elapsed();
    if app.caches.market.online.is_known(elapsed) {
        return Ok(());
    }
    let (now, since) = (app.now(), seen_since(app));
    let look = move |tx: &mut dyn Tx| discovery::are_few_online(tx, now, since);
    let few = app.store.read::<_, StoreError, _>(look).await?;
    app.caches.market.online.remember(few, elapsed);
    Ok(())
}

/// Returns a page of agents that have a skill. Probes the best offline ones first, unless offline agents are
/// shown anyway.
pub async fn discover(app: &AppState, asked: Discover) -> Result<Arc<Discovered>, Error> {
    let mut faults = Faults::new();
    let min_reputation =
        asked.min_reputation.as_deref().filter(|text| !text.is_empty()).map(Reputation::parse);
    if min_reputation == Some(None) {
        faults.add("min_reputation", "must be a number from 0 to 100");
    }
    let max_cost = asked.max_cost.as_deref().filter(|text| !text.is_empty()).map(Credits::parse);
    if let Some(Err(wrong)) = max_cost {
        faults.add("max_cost", wrong);
    }
    let after = asked.after.as_deref().map(read_cursor);
    if after == Some(None) {
        faults.add("after", "must be the `next` of a page");
    }
    if !faults.is_empty() {
        return Err(faults.into());
    }
    let words = discovery::words(asked.q.as_deref().unwrap_or_default()).into_iter().collect();
    let key: Asked = (
        asked.skill,
        min_reputation.flatten().unwrap_or(Reputation::MIN),
        max_cost.and_then(Result::ok).unwrap_or(Credits::MAX),
        words,
        asked.include_offline,
    );
    let (page, limit) = ((key, asked.limit, asked.after), asked.limit);
    let begun = app.store.changes().map(|changes| Moment { changes, at: app.elapsed() });
    if let Some(known) = begun.and_then(|begun| app.caches.market.pages.find(&page, begun)) {
        return Ok(known);
    }
    let (found, bytes) = find(app, &page.0, limit, after.flatten()).await?;
    let found = Arc::new(found);
    if let Some(begun) = begun {
        app.caches.market.pages.remember(page, begun, &found, bytes);
    }
    Ok(found)
}

/// Returns the page and its approximate size in bytes.
async fn find(
    app: &AppState,
    key: &Asked,
    limit: i64,
    after: Option<Place>,
) -> Result<(Discovered, usize), Error> {
    look_who_is_online(app).await?;
    let (skill, min_reputation, max_cost, words, include_offline) = key.clone();
    let search = Search {
        skill,
        min_reputation,
        max_cost,
        words,
        seen_since: (!include_offline).then(|| seen_since(app)),
        now: app.now(),
        except: None,
        max_deadline_ms: None,
        few_online: app.caches.market.online.are_few(),
    };
    if after.is_none() && !include_offline {
        probe::wake_shown(app, &search, limit.max(1) as usize).await?;
    }
    let known = app.caches.market.totals.find(key, app.elapsed());
    let find = move |tx: &mut dyn Tx| {
        let total = known.map_or_else(|| discovery::count(tx, &search), Ok)?;
        Ok((total, discovery::search(tx, &search, after.as_ref(), limit + 1)?))
    };
    let (total, mut found) = app.store.read::<_, StoreError, _>(find).await?;
    if known.is_none() {
        app.caches.market.totals.remember(key.clone(), total, app.elapsed());
    }
    let mut more = found.len() as i64 > limit;
    found.truncate(limit.max(0) as usize);
    let bytes = found.iter().map(bytes_of).sum();
    let places: Vec<_> = found.iter().map(|found| cursor(&found.place)).collect();
    let mut agents: Vec<_> = found.into_iter().map(|found| view(app, found)).collect();
    more |= page::cut(&mut agents, app.config.quotas.page_bytes);
    let next = places.into_iter().nth(agents.len().wrapping_sub(1)).filter(|_| more);
    Ok((Discovered { agents, total, next }, bytes))
}

/// Estimates the bytes that a cached hit takes.
fn bytes_of(found: &discovery::Found) -> usize {
    let texts = [&found.endpoint, &found.description];
    let texts = texts.into_iter().flatten().map(String::len).sum::<usize>();
    size_of::<Found>() + texts + found.display_name.len() + found.place.name.len()
}

fn view(app: &App, found: discovery::Found) -> Found {
    let discovery::Found { is_paused, open_until, seen_at, .. } = found;
    let (status, last_seen) = presence(app, Signs { is_paused, open_until, seen_at });
    Found {
        agent_id: found.place.agent,
        agent_name: found.display_name,
        api_endpoint: found.endpoint,
        skill: OfferedSkill {
            skill_name: found.place.name,
            cost_per_call: found.cost,
            description: found.description,
            min_deadline_ms: found.min_deadline_ms,
        },
        reputation_score: found.reputation,
        decline_rate: found.declines.rate(),
        status: status.into(),
        last_seen: last_seen.map(rfc3339),
    }
}

fn cursor(place: &Place) -> String {
    format!("{}_{}_{}_{}", place.shortfall, place.cost, place.agent.0.simple(), place.name)
}

fn read_cursor(text: &str) -> Option<Place> {
    let mut parts = text.splitn(4, '_');
    let (shortfall, cost) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let agent = AgentId(uuid::Uuid::try_parse(parts.next()?).ok()?);
    let name = parts.next()?.to_owned();
    (!name.contains('\0')).then_some(Place { shortfall, cost, agent, name })
}

/// Returns a page of all skills, by name.
pub async fn skills(app: &App, asked: SkillSearch) -> Result<Items<SkillSummary>, Error> {
    let (after, limit) = (asked.after.unwrap_or_default(), asked.limit);
    let find = move |tx: &mut dyn Tx| discovery::names(tx, &after, limit + 1);
    let found = app.store.read::<_, StoreError, _>(find).await?;
    let items = found.into_iter().map(|found| SkillSummary {
        skill_name: found.name,
        agents: found.agents,
        lowest_cost: found.lowest_cost,
    });
    Ok(chorus_node::page::page(app, items.collect(), limit, |item| item.skill_name.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_back() {
        let agent = AgentId(uuid::Uuid::from_u128(7));
        let place = Place { shortfall: 5, cost: 10, agent, name: "a_b_c".into() };
        assert_eq!(read_cursor(&cursor(&place)), Some(place));
        for wrong in ["", "1", "1_2", "1_2_x_y", "a_2_00000000000000000000000000000007_n"] {
            assert_eq!(read_cursor(wrong), None, "{wrong}");
        }
    }
}
