//! The vocabulary of the core, as types: what happens in conversations, how it travels, and what is expected and made of it.
//!
//! Each word has one spelling, on the wire and in the store; text is read at these two edges and nowhere else. Lists are
//! closed: who matches on one names every case, so that a new word is met everywhere before it can occur. Rules about
//! the words (who is woken, which signal ends what) are the engines', not this module's.

/// Makes an enum of words: each with its spelling, read and written only so. (A spelling is a `tt`: `utoipa` does not see
/// through a `literal`.)
macro_rules! words {
    ($($(#[$attribute:meta])* pub enum $name:ident { $($(#[$doc:meta])* $word:ident = $text:tt,)+ })+) => {
        $(
            #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
            #[derive(utoipa::ToSchema)]
            $(#[$attribute])*
            pub enum $name { $($(#[$doc])* #[serde(rename = $text)] $word,)+ }

            impl $name {
                /// Every word there is.
                pub const ALL: &[Self] = &[$(Self::$word,)+];

                /// As it stands on the wire and in the store.
                pub const fn as_str(self) -> &'static str {
                    match self { $(Self::$word => $text,)+ }
                }

                /// Reads what [`Self::as_str`] wrote.
                pub fn parse(text: &str) -> Option<Self> {
                    match text {
                        $($text => Some(Self::$word),)+
                        _ => None,
                    }
                }
            }

            impl std::fmt::Display for $name {
                fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str(self.as_str())
                }
            }
        )+
    };
}

mod action;
mod word;

pub use action::{Action, SubjectKind};
pub use word::Word;
/// For words that only one protocol has.
pub(crate) use words;

words! {
    /// What kind of conversation.
    pub enum ConversationKind {
        /// Many talk.
        Channel = "channel",
        /// Two talk.
        Dm = "dm",
    }

    /// What a member may read.
    pub enum History {
        /// Everything.
        All = "all",
        /// What was said while it was a member.
        Joined = "joined",
    }

    /// How an agent's own connection string is.
    pub enum ConnectionState {
        /// There is none.
        None = "none",
        /// It is called.
        Ok = "ok",
        /// Nothing is posted to it until it is mended.
        Broken = "broken",
    }

    /// What kind of thing happened in a conversation.
    pub enum EventKind {
        /// Something was said.
        Message = "message",
        /// What a message says was changed.
        Edit = "edit",
        /// A message was taken back.
        Delete = "delete",
        /// What somebody thinks of a message.
        Reaction = "reaction",
        /// What somebody is doing.
        Status = "status",
        /// An agent calls a tool.
        ToolCall = "tool_call",
        /// What a tool answered.
        ToolResult = "tool_result",
        /// An agent failed.
        Error = "error",
        /// An agent begins or ends its work.
        Lifecycle = "lifecycle",
        /// Somebody became a member.
        Join = "join",
        /// Somebody is a member no more.
        Leave = "leave",
        /// The conversation itself was changed.
        Change = "change",
        /// A document has a new version.
        Artifact = "artifact",
        /// A relay envelope between two agents.
        Envelope = "envelope",
        /// Another service's channel message.
        Foreign = "foreign",
        /// An agent does not answer, and somebody else is told.
        Escalation = "escalation",
        /// Work for an agent.
        Job = "job",
        /// How much happened, for who leads.
        Digest = "digest",
    }

    /// What an entry of an inbox is: the name of its server-sent event.
    pub enum EntryKind {
        /// A relay envelope.
        Message = "message",
        /// Something that was said in a conversation.
        Chat = "chat",
        /// Another service's channel message.
        Channel = "channel",
        /// Work that the agent was hired for.
        Job = "job",
        /// What came of work that the agent hired for, at the address that it gave; never in a stream.
        Result = "result",
        /// What the agent would do a job for.
        Quote = "quote",
        /// How much happened where the agent leads.
        Digest = "digest",
    }

    /// How a delivery travels.
    pub enum Transport {
        /// It waits in the inbox.
        Inbox = "inbox",
        /// It is POSTed to the agent's C2A harness.
        Harness = "harness",
        /// It is POSTed to the agent's endpoint.
        Webhook = "webhook",
        /// It is POSTed to the agent's connection string.
        Channel = "channel",
    }

    /// What became of a send.
    pub enum DeliveryState {
        /// The receiver's endpoint took it.
        Delivered = "delivered",
        /// Committed, and the receiver's inbox was open.
        DeliveredSse = "delivered_sse",
        /// Committed; it waits for the receiver's inbox.
        Queued = "queued",
        /// The receiver's endpoint did not take it. Final: the hub does not try again by itself.
        Failed = "failed",
        /// On its way to the receiver's endpoint; seen in histories only.
        Sending = "sending",
        /// Pushed again and again until the receiver takes it; never a relay send.
        Waiting = "waiting",
        /// Given up after a day of tries; it can be replayed.
        Dead = "dead",
    }

    /// What an agent made of what it was given.
    pub enum Disposition {
        /// It answered, or did what it was asked.
        Responded = "responded",
        /// It showed that it has seen it.
        Acknowledged = "acknowledged",
        /// It will see to it later.
        Deferred = "deferred",
        /// It took it on and is not done.
        Claimed = "claimed",
        /// Nothing had to be done.
        Ignored = "ignored",
        /// An edit, a deletion or a newer message took its place.
        Superseded = "superseded",
        /// It could not be worked on.
        Failed = "failed",
    }

    /// What became of a claim.
    pub enum ClaimState {
        /// Somebody holds it.
        Held = "held",
        /// Its holder gave it back.
        Released = "released",
        /// What was claimed is dealt with.
        Resolved = "resolved",
        /// Its time ran out.
        Expired = "expired",
    }

    /// Why an event has the attention it has.
    pub enum Reason {
        /// It was said in a conversation of two.
        DirectMessage = "direct_message",
        /// It names the agent.
        DirectMention = "direct_mention",
        /// It asks something in a thread of the agent's.
        ThreadQuestion = "thread_question",
        /// It gives the agent work.
        Assignment = "assignment",
        /// It asks for leave, or gives it.
        Approval = "approval",
        /// Somebody cannot go on.
        Blocker = "blocker",
        /// It ends work that is under way.
        Cancellation = "cancellation",
        /// It is about somebody's safety.
        Safety = "safety",
        /// It names a role of the agent's.
        RoleMention = "role_mention",
        /// The agent has spoken in its thread.
        ThreadParticipation = "thread_participation",
        /// The agent owns the work stream.
        StreamOwner = "stream_owner",
        /// It only says thanks.
        Thanks = "thanks",
        /// It only says that something was seen.
        Acknowledgement = "acknowledgement",
        /// It is for somebody else.
        AddressedToOther = "addressed_to_other",
        /// An agent said it, and it asks for nothing.
        AgentNoTask = "agent_no_task",
        /// It names nobody.
        Unmentioned = "unmentioned",
        /// It tells everybody how something stands.
        StatusBroadcast = "status_broadcast",
        /// It sums up what happened.
        Digest = "digest",
        /// It was changed after it was answered.
        EditedAfterResponse = "edited_after_response",
        /// Somebody else did not answer in time.
        Escalation = "escalation",
        /// Its time is over.
        Stale = "stale",
        /// Agents have talked among themselves for too long.
        LoopGuard = "loop_guard",
        /// Somebody reacted to what the agent said.
        InboundReaction = "inbound_reaction",
    }

    /// What a message is meant as.
    pub enum Intent {
        /// It asks something.
        Question = "question",
        /// It gives work.
        Assignment = "assignment",
        /// It asks for leave.
        ApprovalRequest = "approval_request",
        /// It gives leave.
        Approval = "approval",
        /// It says that its author cannot go on.
        Blocker = "blocker",
        /// It ends work that is under way.
        Cancellation = "cancellation",
        /// It is about somebody's safety.
        Safety = "safety",
        /// It says thanks.
        Thanks = "thanks",
        /// It says that something was seen.
        Acknowledgement = "acknowledgement",
        /// It says how something stands.
        Status = "status",
        /// It says how far something came.
        Progress = "progress",
        /// It is for the record.
        Log = "log",
        /// It is talk.
        Chat = "chat",
    }

    /// How much a message matters.
    pub enum Priority {
        /// It can wait.
        Low = "low",
        /// As usual.
        Normal = "normal",
        /// Before others.
        High = "high",
        /// Before everything.
        Urgent = "urgent",
    }

    /// What a reaction says.
    pub enum Signal {
        /// Read, no more.
        Seen = "seen",
        /// Understood, or approved.
        Agree = "agree",
        /// At work on it.
        Working = "working",
        /// Accepted, behind other work.
        Queued = "queued",
        /// Taken on.
        Claimed = "claimed",
        /// Finished.
        Done = "done",
        /// Not this one, or not at all.
        Declined = "declined",
        /// Something is missing.
        Blocked = "blocked",
        /// It is not understood.
        Unclear = "unclear",
    }

    /// At whom an event is aimed, seen from one agent.
    pub enum Directedness {
        /// At this agent.
        ToMe = "to_me",
        /// At a role, a thread or a work stream of its.
        ToMyRole = "to_my_role",
        /// At somebody else.
        ToOther = "to_other",
        /// At nobody.
        Ambient = "ambient",
    }

    /// What an agent is to do about an event.
    pub enum Policy {
        /// Answer, or say that it will later.
        MustRespond = "must_respond",
        /// Answer if that helps.
        MayRespond = "may_respond",
        /// Show that it was seen, and no more.
        AckOnly = "ack_only",
        /// Say nothing.
        MustNotRespond = "must_not_respond",
    }

    /// How an event enters an agent's work.
    pub enum Mode {
        /// At once.
        Immediate = "immediate",
        /// Together with what belongs to it, once its author pauses.
        Buffered = "buffered",
        /// The agent is told that there is something, and not what.
        Notify = "notify",
        /// The agent finds it when it looks.
        ToolMailbox = "tool_mailbox",
        /// It is summed up with others.
        Digest = "digest",
        /// It is kept, and never shown.
        Silent = "silent",
    }

    /// Where something was said, as C2A's wire has it: there a thread is a kind of its own, and so is what nobody said.
    pub enum WireConversationKind {
        /// Between two.
        Dm = "dm",
        /// Among many.
        Channel = "channel",
        /// In a thread of either.
        Thread = "thread",
        /// By the hub: a digest, an escalation, a notice.
        System = "system",
        /// A job.
        Tool = "tool",
    }

    /// What kind of author.
    pub enum AuthorKind {
        /// A person.
        Human = "human",
        /// A program.
        Agent = "agent",
        /// The hub itself.
        System = "system",
    }

    /// What kind of somebody calls, or did something.
    pub enum PrincipalKind {
        /// A person, by its account.
        Account = "account",
        /// An agent.
        Agent = "agent",
        /// The owner of a wallet, by its key.
        Owner = "owner",
        /// Who runs the hub.
        Operator = "operator",
        /// Somebody who showed no key.
        Nobody = "nobody",
        /// The hub itself.
        System = "system",
    }

    /// Who sees what an agent sends.
    pub enum Visibility {
        /// The other one of a conversation of two.
        Dm = "dm",
        /// Who reads the thread.
        Thread = "thread",
        /// Who reads the channel.
        Channel = "channel",
        /// Who looks at it right now; it is kept in the audit log only.
        Ephemeral = "ephemeral",
    }

    /// How a message stands that is kept back until a person agrees.
    pub enum ApprovalState {
        /// It waits for a person.
        Held = "held",
        /// A person agreed: it was said.
        Agreed = "agreed",
        /// A person declined it.
        Declined = "declined",
        /// Its author took it back.
        Withdrawn = "withdrawn",
        /// Nobody said anything in time.
        Expired = "expired",
        /// Its author left, or was kept out, or the conversation was archived.
        Ended = "ended",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The list is whole, and each word is written and read the one way everywhere.
    macro_rules! spelled {
        ($($name:ident: $($text:literal)+;)+) => {
            $(
                let texts: Vec<_> = $name::ALL.iter().map(|word| word.as_str()).collect();
                assert_eq!(texts, [$($text),+]);
                for word in $name::ALL {
                    assert_eq!($name::parse(word.as_str()), Some(*word));
                    assert_eq!(json!(word), json!(word.to_string()));
                    assert_eq!(serde_json::from_value::<$name>(json!(word.as_str())).unwrap(), *word);
                }
                assert_eq!($name::parse(""), None);
                assert!(serde_json::from_value::<$name>(json!("Nothing of the kind")).is_err());
            )+
        };
    }

    #[test]
    fn as_the_documents_spell_them() {
        spelled! {
            EventKind: "message" "edit" "delete" "reaction" "status" "tool_call" "tool_result" "error" "lifecycle" "join"
                "leave" "change" "artifact" "envelope" "foreign" "escalation" "job" "digest";
            EntryKind: "message" "chat" "channel" "job" "result" "quote" "digest";
            Transport: "inbox" "harness" "webhook" "channel";
            DeliveryState: "delivered" "delivered_sse" "queued" "failed" "sending" "waiting" "dead";
            Disposition: "responded" "acknowledged" "deferred" "claimed" "ignored" "superseded" "failed";
            ClaimState: "held" "released" "resolved" "expired";
            Reason: "direct_message" "direct_mention" "thread_question" "assignment" "approval" "blocker" "cancellation"
                "safety" "role_mention" "thread_participation" "stream_owner" "thanks" "acknowledgement" "addressed_to_other"
                "agent_no_task" "unmentioned" "status_broadcast" "digest" "edited_after_response" "escalation" "stale"
                "loop_guard" "inbound_reaction";
            Intent: "question" "assignment" "approval_request" "approval" "blocker" "cancellation" "safety" "thanks"
                "acknowledgement" "status" "progress" "log" "chat";
            Priority: "low" "normal" "high" "urgent";
            Signal: "seen" "agree" "working" "queued" "claimed" "done" "declined" "blocked" "unclear";
            Directedness: "to_me" "to_my_role" "to_other" "ambient";
            Policy: "must_respond" "may_respond" "ack_only" "must_not_respond";
            Mode: "immediate" "buffered" "notify" "tool_mailbox" "digest" "silent";
            WireConversationKind: "dm" "channel" "thread" "system" "tool";
            AuthorKind: "human" "agent" "system";
            PrincipalKind: "account" "agent" "owner" "operator" "nobody" "system";
            Visibility: "dm" "thread" "channel" "ephemeral";
            ApprovalState: "held" "agreed" "declined" "withdrawn" "expired" "ended";
            Action: "account.made" "account.disabled" "account.enabled" "account.deleted" "agent.claimed" "agent.disabled"
                "agent.enabled" "agent.registered" "agent.unregistered" "agent.updated" "approval.held" "approval.agreed"
                "approval.declined" "approval.withdrawn" "approval.expired" "approval.ended" "channel.owner_changed"
                "connection.set" "connection.removed" "harness.set" "harness.removed" "connection_string.rotated" "deliveries.replayed"
                "invitation.made" "invitation.revoked" "key.rotated" "key.reset" "owner_key.reset" "message.shown" "master_key.replaced" "credits.minted" "credits.burned"
                "member.added" "member.changed" "member.removed" "receipt.issued"
                "score.claimed" "sessions.ended" "signing_secret.made" "signing_secret.revoked" "skills.offered" "stream.made" "stream.changed"
                "stream.closed" "stream.joined" "stream.left" "token.made" "token.revoked" "webhook_secret.rotated";
        }
    }
}
