//! Turns a program, a coding agent or a model into an agent that answers messages.
//!
//! [`Core`], a state machine without sockets or timers, makes all decisions; the other modules connect it to
//! the world. [`run`] registers the agent at its first start and listens by its inbox, by a C2A session, by a
//! connection string of its own, or directly. It makes a prompt of each message, has a [`Driver`] answer it
//! and sends the answer back. Conversations are processed in parallel, the messages of one conversation in
//! order. Messages that a person sends in pieces are answered together.
//!
//! Guarantees:
//! - A message is answered at most once, also after `kill -9` (`ledger`).
//! - The channel ends with `lifecycle` idle in every case (`core`).
//! - Nothing in a message can pass for a header of the prompt (`prompt`).
//! - Every step is bounded in time, size and number.
//!
//! The harness does not judge which messages deserve an answer: the hub decides which agents are woken, and
//! the driver decides whether to reply.

mod acp;
mod activity;
mod announce;
mod completion;
mod core;
mod deliver;
mod error;
mod exec;
mod history;
mod home;
mod incoming;
mod intake;
mod jobs;
mod journal;
mod ledger;
mod mcp;
mod openai;
mod options;
mod peers;
mod prompt;
mod refresh;
mod report;
mod session;
mod stop_signal;
mod texts;
mod tools;
mod turn;
mod worker;

pub use acp::{Acp, PRESETS, Preset, split_command};
pub use activity::{Activity, Observer};
pub use core::{AT_ONCE, Command, Core, Event, Outcome, Post, Posted, Profile, Run, To};
pub use error::HarnessError;
pub use exec::Exec;
pub use jobs::Offering;
pub use ledger::{End, Known, Ledger, Record, Taken};
pub use openai::{ModelFault, OpenAi};
pub use options::{AgentOptions, Driver, Guard, Listen, QUIET};
pub use peers::{PeerFault, Peers};
pub use stop_signal::Stop;
pub use turn::{Back, Culture, EnvelopeBack, Place, Quoted, SessionBack, Turn};

use crate::{Client, ClientError};
use chorus_protocol::address::Address;
use chorus_protocol::api::Items;
use chorus_protocol::api::accounts::Me;
use chorus_protocol::api::channels::ConversationView;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::ConversationId;
use chorus_protocol::words::PrincipalKind;
use home::Home;
use intake::Intake;
use journal::Journal;
use std::time::Duration;
use stop_signal::stopped;
use worker::{Engine, Worker};

/// The time that a registration in progress may delay the agent's exit: its key is shown only once.
const REGISTRATION_GRACE: Duration = Duration::from_secs(5);

/// Runs an agent until it is told to stop or a final error occurs.
pub async fn run(options: AgentOptions, observer: Observer, mut stop: Stop) -> Result<(), HarnessError> {
    let address =
        Address::parse(&options.name).map_err(|fault| HarnessError::Invalid(Faults::one("name", fault)))?;
    let name = address.name().to_owned();
    match &options.driver {
        Driver::Exec(exec) => exec::check(&exec.program)?,
        Driver::Acp(acp) => acp.check()?,
        Driver::OpenAi(_) => {}
    }
    let home = Home::open(&options.state, &name)?;
    // The journal's lock is taken first, so that two processes do not register the same name.
    let mut journal = home.journal()?;
    let hub = tokio::select! {
        hub = connect(&options, &home, &mut journal, &observer) => hub?,
        () = async { stopped(&mut stop).await; tokio::time::sleep(REGISTRATION_GRACE).await } => {
            observer.tell(Activity::Stopped);
            return Ok(());
        }
    };
    if let Some(hub) = &hub {
        tokio::select! {
            // The worker below handles the stop.
            () = stopped(&mut stop) => {}
            offered = async {
                look_for(hub, &options.channels, &observer).await;
                jobs::offer(hub, &options.offering, &home, &observer).await
            } => offered.map_err(|error| home.blame_key(error))?,
        }
    }
    let ledger = journal.ledger().clone();
    let engine = Engine::start(&options, &home, hub.as_ref()).await?;
    let mut intake = Intake::start(&options, &home, hub.as_ref(), ledger.cursor(), &observer).await?;
    let core = Core::new(options.profile(hub.as_ref()), ledger, options.environment.clone());
    let ways = (hub, intake.session());
    let worked =
        Worker::new(options, engine, ways, core, journal, observer.clone()).work(&mut intake, stop).await;
    intake.close().await;
    worked.map_err(|error| home.blame_key(error))?;
    observer.tell(Activity::Stopped);
    Ok(())
}

/// Connects to the hub as this agent, registering it if it has no key. Returns `None` for an agent that
/// listens directly and needs no hub.
async fn connect(
    options: &AgentOptions,
    home: &Home,
    journal: &mut Journal,
    observer: &Observer,
) -> Result<Option<Client>, HarnessError> {
    let Some(url) = &options.url else { return Ok(None) };
    let connect =
        |key| Client::connect(url, key).map(|hub| hub.with_environment(options.environment.clone()));
    let anybody = connect(options.token.clone())?;
    if let Some(key) = &options.key {
        check_whose(&connect(Some(key.clone()))?, home.name()).await?;
        home.keep_key(anybody.base(), key)?;
    }
    let mut key = home.key(anybody.base())?;
    if key.is_none() && matches!(options.listen, Listen::Direct { .. }) {
        return Ok(None);
    }
    if key.is_none() {
        let (owned, invitation) = (options.token.is_some(), options.invitation.as_deref());
        key = Some(home.register(&anybody, &options.culture, owned, invitation).await?);
        // Everything in a new inbox is new. Without a stored cursor, a message that was handed to a process
        // that died at once would not come again.
        let begun = journal.write(Record::Cursor("0".into()));
        begun.map_err(|source| HarnessError::state(&options.state, source))?;
        observer.tell(Activity::Registered);
    }
    Ok(Some(connect(key)?))
}

/// Refuses the key of another agent before it replaces the stored one. The key is accepted if the hub does not
/// tell its owner or cannot be reached.
async fn check_whose(hub: &Client, name: &str) -> Result<(), HarnessError> {
    let Ok(me) = hub.api_get::<Me>(&["me"], &[]).await else { return Ok(()) };
    if me.kind.known() == Some(PrincipalKind::Agent) && me.name != name {
        return Err(HarnessError::OtherAgent { name: name.to_owned(), other: me.name });
    }
    Ok(())
}

/// Reports whether the agent is a member of the channels named in its options.
async fn look_for(hub: &Client, channels: &[String], observer: &Observer) {
    for named in channels {
        let channel = &find(hub, named).await;
        let name = match hub.api_get::<ConversationView>(&["channels", channel], &[]).await {
            Ok(known) if known.name.is_empty() => Some(channel.clone()),
            Ok(known) => Some(known.name),
            Err(ClientError::Refused { status: 403 | 404, .. }) => None,
            // A hub that is unreachable now may be back later.
            Err(error) => {
                observer.tell(Activity::Skipped { what: format!("the question about {named}: {error}") });
                continue;
            }
        };
        observer.tell(Activity::Membership { channel: named.clone(), name });
    }
}

/// Returns the id of a channel given by id or name, or the text unchanged if no such channel is found.
async fn find(hub: &Client, named: &str) -> String {
    if ConversationId::parse(named).is_some() {
        return named.to_owned();
    }
    let page = hub.api_get::<Items<ConversationView>>(&["channels"], &[("limit", "200")]).await;
    let found = page.ok().and_then(|page| page.items.into_iter().find(|channel| channel.name == named));
    found.map_or_else(|| named.to_owned(), |channel| channel.id)
}
