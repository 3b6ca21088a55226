//! Channels: making, finding, changing and archiving them.

use super::{act, is_member, kinds, masked, not_of_two, only};
use crate::app::{App, AppState};
use crate::audit::{Deed, RequestContext};
use crate::caller::Caller;
use crate::error::Error;
use crate::once::{Done, Once};
use crate::page::page;
use crate::principal_ref::own_handle;
use crate::usage::{event_bytes, room};
use crate::views;
use chorus_protocol::api::channels::{
    ChangedConversation, ChannelChange, ConversationDetail, ConversationPage, ConversationView, NewChannel,
};
use chorus_protocol::api::{Items, Name};
use chorus_protocol::c2a::Glyphs;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{ConversationId, Principal};
use chorus_protocol::redact::Masked;
use chorus_protocol::words::{ConversationKind, History, Signal};
use chorus_store::audit::{Action, Actor, Subject};
use chorus_store::conversation::{self, Act, Handle};
use chorus_store::conversations::{self, Conversation};
use chorus_store::{Tx, usage};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Who may change a channel.
const OWNERS: &str = "the owner of the channel changes and archives it";

/// Makes a channel. Its maker is its owner and first member.
pub async fn make_channel(
    app: &AppState,
    caller: &Caller,
    new: NewChannel,
    once: Once,
) -> Result<Done<ChangedConversation>, Error> {
    let (making, hub) = (Making::new(app, caller, new)?, Arc::clone(app));
    let work = move |tx: &mut dyn Tx| making.run(&hub, tx);
    app.once(once, |_| Ok(()), work).await
}

/// A channel that is to be made.
pub(super) struct Making {
    pub(super) act: Act,
    conversation: Conversation,
    handle: Handle,
    masked: Masked,
}

impl Making {
    pub(super) fn new(app: &App, caller: &Caller, new: NewChannel) -> Result<Self, Error> {
        let masked = masked(&json!({"name": new.name, "context": new.context}))?;
        let act = act(app, caller.principal()?, ConversationId(app.environment.uuid_v7()));
        let conversation = Conversation {
            id: act.conversation,
            kind: ConversationKind::Channel,
            name: masked.text("name").to_owned(),
            context: context(&masked),
            owner: act.author,
            history: new.history.unwrap_or(History::All),
            created_at: act.now,
            archived_at: None,
            keep_days: None,
            loop_turns: None,
            glyphs: None,
            oldest: 1,
        };
        let own = || Handle::Like(own_handle(caller));
        let handle = new.handle.map_or_else(own, |Name(handle)| Handle::Exactly(handle));
        Ok(Self { act, conversation, handle, masked })
    }

    pub(super) fn run(&self, app: &App, tx: &mut dyn Tx) -> Result<ChangedConversation, Error> {
        app.room_for_channel(tx, self.act.author)?;
        app.count_bytes(tx, self.act.author, said_of(&self.conversation) + event_bytes(0))?;
        conversation::create(tx, &self.act, &self.conversation, self.handle.clone())?;
        Ok(changed(&self.conversation, &self.masked))
    }
}

/// Those somebody is a member of: without archived ones, or these alone.
pub async fn list_conversations(
    app: &App,
    who: Principal,
    asked: ConversationPage,
) -> Result<Items<ConversationView>, Error> {
    let ConversationPage { after, limit, archived } = asked;
    let find = move |tx: &mut dyn Tx| Ok(conversations::of_member(tx, who, archived, after, limit + 1)?);
    let found = app.store.read::<_, Error, _>(find).await?;
    let found = found.iter().map(views::conversation).collect();
    Ok(page(app, found, limit, |last: &ConversationView| last.id.clone()))
}

/// A conversation, and what somebody is in it.
pub async fn look_at(app: &App, who: Principal, id: ConversationId) -> Result<ConversationDetail, Error> {
    let find = move |tx: &mut dyn Tx| Ok(conversation::as_reader(tx, id, who)?);
    let (conversation, me) = app.store.read::<_, Error, _>(find).await?;
    Ok(ConversationDetail { conversation: views::conversation(&conversation), me: views::member(me) })
}

/// Changes a channel; its owner may, and hands it on by naming another.
pub async fn change_channel(
    app: &AppState,
    who: Principal,
    id: ConversationId,
    context: RequestContext,
    change: ChannelChange,
    once: Once,
) -> Result<Done<ChangedConversation>, Error> {
    let ChannelChange { name, context: about, history, owner, keep_days, loop_guard, glyphs } = change;
    let says_something = name.is_some() || about.is_some() || history.is_some() || owner.is_some();
    if !says_something && keep_days.is_none() && loop_guard.is_none() && glyphs.is_none() {
        let what = "must have a name, a context, a history, an owner, keep_days, loop_guard or glyphs";
        return Err(Faults::one("body", what).into());
    }
    let glyphs = glyphs.map(kept_glyphs).transpose()?;
    let (act, hub) = (act(app, who, id), Arc::clone(app));
    let masked = masked(&json!({"name": name, "context": about}))?;
    let (named, told) = (name.is_some(), about.is_some());
    let work = move |tx: &mut dyn Tx| {
        let (conversation, _) = conversation::lock_as_speaker(tx, id, who)?;
        not_of_two(&conversation)?;
        let heir = owner.as_ref().map(|Name(handle)| &**handle);
        let new = conversation::change(tx, &act, heir, &|conversation| {
            if named {
                masked.text("name").clone_into(&mut conversation.name);
            }
            if told {
                conversation.context = self::context(&masked);
            }
            conversation.history = history.unwrap_or(conversation.history);
            if let Some(days) = keep_days {
                conversation.keep_days = (days > 0).then_some(days);
            }
            conversation.loop_turns = loop_guard.or(conversation.loop_turns);
            if let Some(glyphs) = &glyphs {
                conversation.glyphs.clone_from(glyphs);
            }
        })
        .map_err(only(OWNERS))?;
        hub.count_bytes(tx, who, said_of(&new))?;
        if new.owner != conversation.owner {
            // It is among those of its new owner by now. Of two at once the second counts the first.
            tx.lock(new.owner.uuid())?;
            let used = usage::channels(tx, new.owner)? - 1;
            room("channels", used, hub.config.quotas.channels)?;
            let (actor, subject) = (Actor::Principal(who), Subject::Channel(id));
            let detail = json!({"owner": new.owner.to_string()});
            context.record(tx, &hub, Deed::new(actor, Action::ChannelOwnerChanged, subject, detail))?;
        }
        Ok(changed(&new, &masked))
    };
    app.once(once, is_member(who, id), work).await
}

/// Archives a channel; its owner may. It can still be read; nothing can be said in it any more.
pub async fn archive(
    app: &AppState,
    who: Principal,
    id: ConversationId,
    once: Once,
) -> Result<Done<()>, Error> {
    let act = act(app, who, id);
    let work = move |tx: &mut dyn Tx| {
        let (conversation, _) = conversation::as_reader(tx, id, who)?;
        not_of_two(&conversation)?;
        conversation::archive(tx, &act).map_err(only(OWNERS))
    };
    app.once(once, is_member(who, id), work).await
}

/// Opens an archived channel again; its owner may.
pub async fn restore(
    app: &AppState,
    who: Principal,
    id: ConversationId,
    once: Once,
) -> Result<Done<ConversationView>, Error> {
    let (act, hub) = (act(app, who, id), Arc::clone(app));
    let work = move |tx: &mut dyn Tx| {
        let (conversation, _) = conversation::as_reader(tx, id, who)?;
        not_of_two(&conversation)?;
        if conversation.archived_at.is_some() && conversation.owner == who {
            // The conversation first, as everywhere.
            tx.lock(id.0)?;
            hub.room_for_channel(tx, who)?;
        }
        let restored = conversation::restore(tx, &act).map_err(only(OWNERS))?;
        Ok(views::conversation(&restored))
    };
    app.once(once, is_member(who, id), work).await
}

/// How signals are shown, as it is kept; nothing, if that is as usual. Whoever sees a glyph knows which signal it is.
fn kept_glyphs(glyphs: Glyphs) -> Result<Option<String>, Error> {
    let seen: BTreeSet<_> = Signal::ALL.iter().map(|signal| glyphs.of(*signal)).collect();
    if seen.len() < Signal::ALL.len() {
        return Err(Faults::one("glyphs", "must not show two signals alike").into());
    }
    if glyphs == Glyphs::default() {
        return Ok(None);
    }
    serde_json::to_string(&glyphs).map(Some).map_err(Error::internal)
}

/// What it is for. An empty text is none.
fn context(masked: &Masked) -> Option<String> {
    Some(masked.text("context").to_owned()).filter(|context| !context.is_empty())
}

fn changed(conversation: &Conversation, masked: &Masked) -> ChangedConversation {
    ChangedConversation { conversation: views::conversation(conversation), masked: kinds(masked) }
}

/// What a conversation counts of which this is said.
fn said_of(conversation: &Conversation) -> i64 {
    event_bytes(conversation.name.len() + conversation.context.as_ref().map_or(0, String::len))
}
