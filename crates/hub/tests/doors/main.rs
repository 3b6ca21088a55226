//! Tests of the hub's doors over real sockets, by a client that knows only the protocol.
//!
//! All tests are one program, because linking is the main cost. `support` starts hubs; every other module
//! covers one subject.

#![expect(clippy::disallowed_methods, reason = "tests measure how long things take")]

#[cfg(test)]
mod accounts;
#[cfg(test)]
mod agents;
#[cfg(test)]
mod allowances;
#[cfg(test)]
mod approvals;
#[cfg(test)]
mod attention;
#[cfg(test)]
mod audit;
#[cfg(test)]
mod authorization;
#[cfg(test)]
mod background;
#[cfg(test)]
mod bad_bodies;
#[cfg(test)]
mod bad_http;
#[cfg(test)]
mod bad_receivers;
#[cfg(test)]
mod blocks;
#[cfg(test)]
mod board;
#[cfg(test)]
mod body_budget;
#[cfg(test)]
mod bridges;
#[cfg(test)]
mod c2a;
#[cfg(test)]
mod callbacks;
#[cfg(test)]
mod catch_up;
#[cfg(test)]
mod challenge;
#[cfg(test)]
mod changes;
#[cfg(test)]
mod channel;
#[cfg(test)]
mod channel_fixture;
#[cfg(test)]
mod channel_rules;
#[cfg(test)]
mod channels;
#[cfg(test)]
mod choir;
#[cfg(test)]
mod chosen_ids;
#[cfg(test)]
mod consent;
#[cfg(test)]
mod counted;
#[cfg(test)]
mod deliveries;
#[cfg(test)]
mod disabled;
#[cfg(test)]
mod document;
#[cfg(test)]
mod documents;
#[cfg(test)]
mod ephemeral;
#[cfg(test)]
mod errors;
#[cfg(test)]
mod fleet;
#[cfg(test)]
mod floods;
#[cfg(test)]
mod follow;
#[cfg(test)]
mod foreign_pages;
#[cfg(test)]
mod growing;
#[cfg(test)]
mod heartbeats;
#[cfg(test)]
mod held_receiver;
#[cfg(test)]
mod idempotency;
#[cfg(test)]
mod inbox;
#[cfg(test)]
mod inbox_load;
#[cfg(test)]
mod joined_history;
#[cfg(test)]
mod leaks;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod living_client;
#[cfg(test)]
mod lockouts;
#[cfg(test)]
mod market;
#[cfg(test)]
mod market_abuse;
#[cfg(test)]
mod market_books;
#[cfg(test)]
mod market_bounds;
#[cfg(test)]
mod market_forms;
#[cfg(test)]
mod market_job_ways;
#[cfg(test)]
mod market_jobs;
#[cfg(test)]
mod market_money;
#[cfg(test)]
mod market_offers;
#[cfg(test)]
mod market_pages;
#[cfg(test)]
mod market_presence;
#[cfg(test)]
mod market_quotes;
#[cfg(test)]
mod market_refusals;
#[cfg(test)]
mod market_reputation;
#[cfg(test)]
mod market_slow_workers;
#[cfg(test)]
mod market_stolen;
#[cfg(test)]
mod market_tool;
#[cfg(test)]
mod market_workers;
#[cfg(test)]
mod market_writes;
#[cfg(test)]
mod mcp;
#[cfg(test)]
mod message_pages;
#[cfg(test)]
mod messages;
#[cfg(test)]
mod nodes;
#[cfg(test)]
mod non_members;
#[cfg(test)]
mod noninterference;
#[cfg(test)]
mod pages;
#[cfg(test)]
mod payloads;
#[cfg(test)]
mod push;
#[cfg(test)]
mod push_failures;
#[cfg(test)]
mod quotas;
#[cfg(test)]
mod recovery;
#[cfg(test)]
mod register;
#[cfg(test)]
mod retention;
#[cfg(test)]
mod revocation;
#[cfg(test)]
mod secrets;
#[cfg(test)]
mod send;
#[cfg(test)]
mod sent;
#[cfg(test)]
mod set_clock;
#[cfg(test)]
mod settings_pages;
#[cfg(test)]
mod stream;
#[cfg(test)]
mod stream_pages;
#[cfg(test)]
mod support;
#[cfg(test)]
mod trail;
#[cfg(test)]
mod truthful_answers;
#[cfg(test)]
mod unread;
#[cfg(test)]
mod unregister;
#[cfg(test)]
mod waiting_pages;
#[cfg(test)]
mod web;
#[cfg(test)]
mod webhooks;
