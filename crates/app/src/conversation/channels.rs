//! Channels: making, finding, changing and archiving them.

use super::{act, count_message, is_member, kinds, masked, not_of_two, only};
use crate::principal_ref::own_handle;
use crate::views;
use chorus_node::Error;
use chorus_node::audit::{Deed, RequestContext};
use chorus_node::caller::Caller;
use chorus_node::idempotency::{Done, Once};
use chorus_node::limits::usage::room;
use chorus_node::page::page;
use chorus_node::{App, AppState};
use chorus_protocol::api::channels::{
    ChangedConversation, ChannelChange, ConversationDetail, ConversationPage, ConversationView, NewChannel,
};
use chorus_protocol::api::{Items, Name};
use chorus_protocol::c2a::Glyphs;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{ConversationId, Principal};
use chorus_protocol::redact::{Masked, MaskedText};
use chorus_protocol::words::{ConversationKind, History, Signal};
use chorus_store::audit::{Action, Actor, Subject};
use chorus_store::conversation::{self, Act, Handle};
use chorus_store::conversations::{self, Conversation};
use chorus_store::{Tx, usage};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

/// The error for callers who may not change a channel.
const OWNERS: &str = "the owner of the channel changes and archives it";

/// Makes a channel. The caller becomes its owner and first member.
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

/// A checked request for a new channel.
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
            name: masked.masked_text("name").unwrap_or_default(),
            context: context(&masked),
            owner: act.author,
            history: new.history.unwrap_or(History::All),
            created_at: act.now,
            archived_at: None,
            keep_days: None,
            open_from: 0,
            loop_turns: None,
            longest_task_ms: None,
            glyphs: None,
            oldest: 1,
        };
        let own = || Handle::Like(own_handle(caller));
        let handle = new.handle.map_or_else(own, |Name(handle)| Handle::Exactly(handle));
        Ok(Self { act, conversation, handle, masked })
    }

    pub(super) fn run(&self, app: &App, tx: &mut dyn Tx) -> Result<ChangedConversation, Error> {
        app.limits.room_for_channel(tx, self.act.author)?;
        conversation::create(tx, &self.act, &self.conversation, self.handle.clone())?;
        Ok(changed(&self.conversation, &self.masked))
    }
}

/// Returns a page of the caller's conversations: the archived ones if `archived` is set, else the others.
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

/// Returns a conversation, with the caller's membership.
pub async fn look_at(app: &App, who: Principal, id: ConversationId) -> Result<ConversationDetail, Error> {
    let find = move |tx: &mut dyn Tx| Ok(conversation::as_reader(tx, id, who)?);
    let (conversation, me) = app.store.read::<_, Error, _>(find).await?;
    Ok(ConversationDetail { conversation: views::conversation(&conversation), me: views::member(me) })
}

/// Changes a channel. Only its owner may, and hands it over by naming a new owner.
pub async fn change_channel(
    app: &AppState,
    who: Principal,
    id: ConversationId,
    context: RequestContext,
    change: ChannelChange,
    once: Once,
) -> Result<Done<ChangedConversation>, Error> {
    let ChannelChange {
        name,
        context: about,
        history,
        owner,
        keep_days,
        loop_guard,
        longest_task_ms,
        glyphs,
    } = change;
    let says_something = name.is_some() || about.is_some() || history.is_some() || owner.is_some();
    let sets_a_limit = keep_days.is_some() || loop_guard.is_some() || longest_task_ms.is_some();
    if !says_something && !sets_a_limit && glyphs.is_none() {
        let what = "must have a name, a context, a history, an owner, keep_days, loop_guard, longest_task_ms or glyphs";
        return Err(Faults::one("body", what).into());
    }
    let glyphs = glyphs.map(kept_glyphs).transpose()?;
    let (act, hub, counted) = (act(app, who, id), Arc::clone(app), OnceLock::new());
    let masked = masked(&json!({"name": name, "context": about}))?;
    let (named, told) = (name.is_some(), about.is_some());
    let work = move |tx: &mut dyn Tx| {
        count_message(&hub, tx, &act, &counted)?;
        let (conversation, _) = conversation::lock_as_speaker(tx, id, who)?;
        not_of_two(&conversation)?;
        let heir = owner.as_ref().map(|Name(handle)| &**handle);
        let new = conversation::change(tx, &act, heir, &|conversation| {
            if named {
                conversation.name = masked.masked_text("name").unwrap_or_default();
            }
            if told {
                conversation.context = self::context(&masked);
            }
            conversation.history = history.unwrap_or(conversation.history);
            if let Some(days) = keep_days {
                conversation.keep_days = (days > 0).then_some(days);
            }
            conversation.loop_turns = loop_guard.or(conversation.loop_turns);
            if let Some(longest) = longest_task_ms {
                conversation.longest_task_ms = (longest > 0).then_some(longest);
            }
            if let Some(glyphs) = &glyphs {
                conversation.glyphs.clone_from(glyphs);
            }
        })
        .map_err(only(OWNERS))?;
        if new.owner != conversation.owner {
            // The channel already counts for the new owner. The lock makes the second of two concurrent
            // requests count the first.
            tx.lock(new.owner.into())?;
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

/// Archives a channel. Only its owner may. It can still be read, but nothing can be said in it.
pub async fn archive(
    app: &AppState,
    who: Principal,
    id: ConversationId,
    once: Once,
) -> Result<Done<()>, Error> {
    let (act, hub, counted) = (act(app, who, id), Arc::clone(app), OnceLock::new());
    let work = move |tx: &mut dyn Tx| {
        count_message(&hub, tx, &act, &counted)?;
        let (conversation, _) = conversation::as_reader(tx, id, who)?;
        not_of_two(&conversation)?;
        conversation::archive(tx, &act).map_err(only(OWNERS))
    };
    app.once(once, is_member(who, id), work).await
}

/// Restores an archived channel. Only its owner may.
pub async fn restore(
    app: &AppState,
    who: Principal,
    id: ConversationId,
    once: Once,
) -> Result<Done<ConversationView>, Error> {
    let (act, hub, counted) = (act(app, who, id), Arc::clone(app), OnceLock::new());
    let work = move |tx: &mut dyn Tx| {
        count_message(&hub, tx, &act, &counted)?;
        let (conversation, _) = conversation::as_reader(tx, id, who)?;
        not_of_two(&conversation)?;
        if conversation.archived_at.is_some() && conversation.owner == who {
            // The conversation is locked before the account, in the order that all acts use.
            tx.lock(id.into())?;
            hub.limits.room_for_channel(tx, who)?;
        }
        let restored = conversation::restore(tx, &act).map_err(only(OWNERS))?;
        Ok(views::conversation(&restored))
    };
    app.once(once, is_member(who, id), work).await
}

/// Returns the glyphs in their stored form; `None` for the default. Fails if two signals share a glyph.
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

/// Returns the context of a channel; `None` if it is empty.
fn context(masked: &Masked) -> Option<MaskedText> {
    masked.masked_text("context").filter(|context| !context.is_empty())
}

fn changed(conversation: &Conversation, masked: &Masked) -> ChangedConversation {
    ChangedConversation { conversation: views::conversation(conversation), masked: kinds(masked) }
}
