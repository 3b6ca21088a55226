//! Who comes into a conversation at once, and who is asked first.
//!
//! A person who shares no conversation with whoever adds or writes to it is asked. For one that there is not, the same is
//! looked up, kept and answered, so that nobody learns which addresses have an account. Agents are in the directory for
//! everybody to see: who may not add one is told so.

use super::only;
use crate::app::{App, AppState};
use crate::config::Signup;
use crate::error::{Error, Refused};
use crate::mail_limits::Asker;
use crate::mailer::Letter;
use crate::usage::{event_bytes, room};
use chorus_protocol::api::members::Invited;
use chorus_protocol::code::Code;
use chorus_protocol::ids::{AccountId, ConversationId, EventId, InvitationId, Principal};
use chorus_protocol::words::ConversationKind;
use chorus_store::accounts::Account;
use chorus_store::conversation::{self, Act, Handle, Newcomer};
use chorus_store::conversations::Conversation;
use chorus_store::directory::Agent;
use chorus_store::invitations::{self, Invitation, Invitee, MOST_OF_INVITER, Made};
use chorus_store::members::{self, Member};
use chorus_store::{StoreError, Tx, blocks, directory};
use std::sync::Arc;
use tokio::runtime::Handle as Runtime;
use uuid::Uuid;

/// How a person comes into a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    /// It knows who lets it in.
    AtOnce,
    /// It is asked.
    Asked {
        /// It does not want to hear from this one.
        hidden: bool,
    },
}

/// How a person, if there is one, comes into a conversation of `who`.
pub(super) fn admission(
    tx: &mut dyn Tx,
    who: Principal,
    account: Option<&Account>,
) -> Result<Admission, StoreError> {
    // The same is asked about nobody, so that time does not tell.
    let id = account.map_or(AccountId(Uuid::nil()), |account| account.id);
    let hidden = blocks::keeps_out(tx, id.into(), who)?;
    let own = match who {
        Principal::Agent(agent) => directory::owner_of(tx, agent)? == Some(id),
        Principal::Account(account) => account == id,
    };
    let shared = members::share(tx, who, id.into())?;
    if account.is_some() && !hidden && (own || shared) {
        return Ok(Admission::AtOnce);
    }
    Ok(Admission::Asked { hidden })
}

/// Whether `who` may add an agent to a conversation.
pub(super) fn check_agent(tx: &mut dyn Tx, who: Principal, agent: &Agent) -> Result<(), Error> {
    check_open(tx, who, agent)?;
    let Some(owner) = agent.owner else { return Ok(()) };
    let own = who == agent.id.into() || who == owner.into();
    if own || members::share(tx, who, agent.id.into())? || members::share(tx, who, owner.into())? {
        return Ok(());
    }
    Err(Error::new(
        Code::Forbidden,
        "this agent belongs to somebody you share no channel with: ask its owner to add it; you can write to it",
    ))
}

/// Whether `who` may write to an agent.
pub(super) fn check_open(tx: &mut dyn Tx, who: Principal, agent: &Agent) -> Result<(), Error> {
    if agent.has_blocks && blocks::keeps_out(tx, agent.id.into(), who)? {
        let what = "this agent does not want to hear from you";
        return Err(Error::new(Code::Forbidden, what).refused(Refused::Blocked));
    }
    Ok(())
}

/// Lets somebody into a channel, if there is room.
pub(super) fn admit(app: &App, tx: &mut dyn Tx, act: &Act, new: &Newcomer) -> Result<Member, Error> {
    room("members", members::count(tx, act.conversation)?, app.config.quotas.members)?;
    Ok(conversation::admit(tx, act, new)?)
}

/// Adds somebody to a channel of the caller's, if there is room.
pub(super) fn add(app: &App, tx: &mut dyn Tx, act: &Act, new: &Newcomer) -> Result<Member, Error> {
    room("members", members::count(tx, act.conversation)?, app.config.quotas.members)?;
    app.count_bytes(tx, act.author, event_bytes(0))?;
    conversation::add_member(tx, act, new).map_err(only(MAY_ADD))
}

/// The conversation of whoever acts, called `mine`, and another, and whether it was made just now. It counts for `charged`.
pub(super) fn pair(
    (app, charged): (&App, Principal),
    tx: &mut dyn Tx,
    act: &Act,
    second: EventId,
    mine: &str,
    (other, theirs): (Principal, &str),
) -> Result<(Conversation, bool), Error> {
    let id = ConversationId::of_pair(act.author, other);
    let name = format!("{mine} & {theirs}");
    let new = Conversation::new(id, ConversationKind::Dm, name, act.author, act.now);
    let handles = (Handle::Like(mine.to_owned()), Handle::Like(theirs.to_owned()));
    let (conversation, made) =
        conversation::pair(tx, &Act { conversation: id, ..*act }, &new, handles, other, second)?;
    if made {
        // Two come.
        app.count_bytes(tx, charged, 2 * event_bytes(0))?;
    }
    Ok((conversation, made))
}

/// Who adds members.
pub(super) const MAY_ADD: &str = "the owner of the channel and its leads add members";

/// An invitation by whoever acts. What is asked of the newcomer is for a channel only.
pub(super) fn invitation(act: &Act) -> Invitation {
    Invitation {
        id: InvitationId(act.event.0),
        inviter: act.author,
        conversation: None,
        handle: None,
        roles: vec![],
        lead: false,
        created_at: act.now,
    }
}

/// Asks a person, or nobody, and answers the same.
pub(super) fn invite(
    (app, runtime, asker): (&AppState, &Runtime, Asker),
    tx: &mut dyn Tx,
    act: &Act,
    new: &Invitation,
    invitee: &Invitee,
    hidden: bool,
) -> Result<Invited, Error> {
    match invitations::insert(tx, new, invitee, hidden, act.trace)? {
        Made::Full => Err(Error::new(
            Code::Conflict,
            format_args!("you have {MOST_OF_INVITER} open invitations; each ends after 30 days"),
        )),
        Made::Kept { mail } => {
            if let (true, Signup::Open, Invitee::Email(to, _)) = (mail, app.config.signup, invitee) {
                let (hub, runtime, to) = (Arc::clone(app), runtime.clone(), to.clone());
                tx.after_commit(Box::new(move || {
                    let tasks = hub.tasks.clone();
                    tasks.spawn_on(write_to(hub, to, asker), &runtime);
                }));
            }
            Ok(Invited { status: "invited".into() })
        }
    }
}

/// A mail to a stranger. Nothing in it is said by whoever invites: it carries nobody's words to people who did not ask for them.
async fn write_to(app: AppState, to: String, asker: Asker) {
    // When too much goes on the mail is not sent; the invitation is there when the person signs up.
    let Ok(Some(slot)) = app.mailer.slot(&to, asker) else { return };
    let (host, url) = (&app.config.host_name, &app.config.public_url);
    let text = format!(
        "Somebody invited you to a conversation on the Chorus hub at {host}.\n\n\
         To see who it is, sign in there with this address:\n\n\
         {url}/signin\n\n\
         If you do nothing, nothing happens; you are not written to again today.\n"
    );
    let letter = Letter { to, subject: format!("You are invited to Chorus at {host}"), text };
    app.mailer.send(letter, slot).await;
}
