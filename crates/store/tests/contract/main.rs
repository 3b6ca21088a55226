//! The contract of the store: every case runs on SQLite and on PostgreSQL, and nearly all on an in-place store
//! as well. All cases are one program, because linking is the main cost.

#![expect(clippy::disallowed_methods, reason = "tests measure how long things take")]

#[cfg(test)]
mod accounts;
#[cfg(test)]
mod allowances;
#[cfg(test)]
mod approvals;
#[cfg(test)]
mod attention;
#[cfg(test)]
mod audit;
#[cfg(test)]
mod batches;
#[cfg(test)]
mod books;
#[cfg(test)]
mod channel;
#[cfg(test)]
mod channel_owners;
#[cfg(test)]
mod chats;
#[cfg(test)]
mod choir;
#[cfg(test)]
mod clock;
#[cfg(test)]
mod consent;
#[cfg(test)]
mod counting;
#[cfg(test)]
mod deliveries;
#[cfg(test)]
mod directory;
#[cfg(test)]
mod find;
#[cfg(test)]
mod growing;
#[cfg(test)]
mod idempotency;
#[cfg(test)]
mod in_place_only;
#[cfg(test)]
mod inboxes;
#[cfg(test)]
mod ledger_model;
#[cfg(test)]
mod log;
#[cfg(test)]
mod mailbox;
#[cfg(test)]
mod market;
#[cfg(test)]
mod market_agents;
mod market_words;
#[cfg(test)]
mod mcp_sessions;
#[cfg(test)]
mod mechanics;
#[cfg(test)]
mod migrations;
#[cfg(test)]
mod model;
#[cfg(test)]
mod obligations;
#[cfg(test)]
mod outages;
#[cfg(test)]
mod postgres_only;
#[cfg(test)]
mod postgres_tls;
#[cfg(test)]
mod push;
#[cfg(test)]
mod readers;
#[cfg(test)]
mod readings;
#[cfg(test)]
mod reconcilers;
#[cfg(test)]
mod recovery;
#[cfg(test)]
mod relay;
#[cfg(test)]
mod reputation;
#[cfg(test)]
mod roster;
#[cfg(test)]
mod saying;
#[cfg(test)]
mod sealed;
#[cfg(test)]
mod search;
#[cfg(test)]
mod sent;
#[cfg(test)]
mod sequences;
#[cfg(test)]
mod settings;
#[cfg(test)]
mod sqlite_only;
#[cfg(test)]
mod support;
#[cfg(test)]
mod transfer;
#[cfg(test)]
mod work_streams;
