//! An agent out of anything: a program, or a model, that answers what is said to it.
//!
//! What is done when is decided by [`Core`], a state machine without sockets or timers; everything else here surrounds it.
//! [`run`] registers the agent at its first start, listens by its inbox (or by a C2A session, or by a connection string of its own, or
//! directly), makes a prompt of each message, has it answered by a [`Driver`], and sends the answer back. Conversations
//! are worked on side by side, the messages of each one after the other; what a person types in pieces is one. What always holds: a message is answered at most once, also after `kill -9`
//! (`ledger`); the channel ends with `lifecycle` idle, whatever happened (`core`); nothing a sender writes can
//! pass for a header of the prompt (`prompt`); every step is bounded in time, size and number.
//!
//! It deliberately has no opinion on what is worth an answer: the hub decides who is woken, the driver whether to
//! speak.

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
mod texts;
mod tools;
mod turn;
mod worker;

pub use activity::{Activity, Observer};
pub use core::{AT_ONCE, Command, Core, Event, Outcome, Post, Posted, Profile, Run, To};
pub use error::HarnessError;
pub use exec::Exec;
pub use jobs::Offering;
pub use ledger::{End, Known, Ledger, Record, Taken};
pub use openai::{ModelFault, OpenAi};
pub use options::{AgentOptions, Driver, Guard, Listen, QUIET, Stop};
pub use peers::{PeerFault, Peers};
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
use options::stopped;
use std::time::Duration;
use worker::Worker;

/// How long a registration that is on its way may hold up the end of the agent: its key is shown only once.
const REGISTRATION_GRACE: Duration = Duration::from_secs(5);

/// Runs an agent until it is told to stop, or cannot go on.
pub async fn run(options: AgentOptions, observer: Observer, mut stop: Stop) -> Result<(), HarnessError> {
    let address =
        Address::parse(&options.name).map_err(|fault| HarnessError::Invalid(Faults::one("name", fault)))?;
    let name = address.name().to_owned();
    if let Driver::Exec(exec) = &options.driver {
        exec::check(exec)?;
    }
    let home = Home::open(&options.state, &name)?;
    // First of all, so that two processes do not register the same name.
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
            // The work that follows sees it too.
            () = stopped(&mut stop) => {}
            offered = async {
                look_for(hub, &options.channels, &observer).await;
                jobs::offer(hub, &options.offering, &home, &observer).await
            } => offered.map_err(|error| home.blame_key(error))?,
        }
    }
    let ledger = journal.ledger().clone();
    let mut intake = Intake::start(&options, &home, hub.as_ref(), ledger.cursor(), &observer).await?;
    let core = Core::new(options.profile(hub.as_ref()), ledger, options.environment.clone());
    let ways = (hub, intake.session());
    let worked = Worker::new(options, ways, core, journal, observer.clone()).work(&mut intake, stop).await;
    intake.close().await;
    worked.map_err(|error| home.blame_key(error))?;
    observer.tell(Activity::Stopped);
    Ok(())
}

/// The hub as this agent, which is registered if it has no key; an agent that listens directly needs no hub.
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
        // Everything in a new inbox is new. Without a place to go on after, a message that was handed over to a
        // process that died at once would not come again.
        let begun = journal.write(Record::Cursor("0".into()));
        begun.map_err(|source| HarnessError::state(&options.state, source))?;
        observer.tell(Activity::Registered);
    }
    Ok(Some(connect(key)?))
}

/// Refuses the key of another agent, before it takes the place of this one's. A hub that does not say whose it is, or is away
/// now, is believed.
async fn check_whose(hub: &Client, name: &str) -> Result<(), HarnessError> {
    let Ok(me) = hub.api_get::<Me>(&["me"], &[]).await else { return Ok(()) };
    if me.kind.known() == Some(PrincipalKind::Agent) && me.name != name {
        return Err(HarnessError::OtherAgent { name: name.to_owned(), other: me.name });
    }
    Ok(())
}

/// Tells whether the agent is in the channels it is expected to be in.
async fn look_for(hub: &Client, channels: &[String], observer: &Observer) {
    for named in channels {
        let channel = &find(hub, named).await;
        let name = match hub.api_get::<ConversationView>(&["channels", channel], &[]).await {
            Ok(known) if known.name.is_empty() => Some(channel.clone()),
            Ok(known) => Some(known.name),
            Err(ClientError::Refused { status: 403 | 404, .. }) => None,
            // A hub that is away now will be there later.
            Err(error) => {
                observer.tell(Activity::Skipped { what: format!("the question about {named}: {error}") });
                continue;
            }
        };
        observer.tell(Activity::Membership { channel: named.clone(), name });
    }
}

/// The id of a channel that was named by its id or by its name; what it was named, if it cannot be found.
async fn find(hub: &Client, named: &str) -> String {
    if ConversationId::parse(named).is_some() {
        return named.to_owned();
    }
    let page = hub.api_get::<Items<ConversationView>>(&["channels"], &[("limit", "200")]).await;
    let found = page.ok().and_then(|page| page.items.into_iter().find(|channel| channel.name == named));
    found.map_or_else(|| named.to_owned(), |channel| channel.id)
}
