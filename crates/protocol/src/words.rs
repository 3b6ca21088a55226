//! The core vocabulary as enums: events, transports, attention and dispositions.
//!
//! Each word has one spelling, used on the wire and in the store, and is parsed at these two edges only. The
//! lists are closed: a `match` names every case, so the compiler finds each place that must handle a new word.
//! The rules about the words belong to the engines.

/// Defines enums of words, each with its spelling. (A spelling is a `tt`, because `utoipa` cannot read a
/// `literal`.)
macro_rules! words {
    ($($(#[$attribute:meta])* pub enum $name:ident { $($(#[$doc:meta])* $word:ident = $text:tt,)+ })+) => {
        $(
            #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
            #[derive(utoipa::ToSchema)]
            $(#[$attribute])*
            pub enum $name { $($(#[$doc])* #[serde(rename = $text)] $word,)+ }

            impl $name {
                pub const ALL: &[Self] = &[$(Self::$word,)+];

                /// Returns the spelling on the wire and in the store.
                pub const fn as_str(self) -> &'static str {
                    match self { $(Self::$word => $text,)+ }
                }

                /// Parses a spelling written by [`Self::as_str`].
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
/// Exported for the words of a single protocol.
pub(crate) use words;

words! {
    /// The kind of a conversation.
    pub enum ConversationKind {
        /// A conversation of any number of members.
        Channel = "channel",
        /// A direct conversation of two.
        Dm = "dm",
    }

    /// The part of a conversation's history that a member may read.
    pub enum History {
        /// All events since the conversation was created or since its history was opened.
        All = "all",
        /// Events since the member joined.
        Joined = "joined",
    }

    /// The state of an agent's own connection string.
    pub enum ConnectionState {
        /// The agent has no connection string.
        None = "none",
        /// The hub posts to the connection string.
        Ok = "ok",
        /// The hub stops posting until the connection string is replaced.
        Broken = "broken",
    }

    /// The kind of an event in a conversation.
    pub enum EventKind {
        Message = "message",
        /// A message's text was changed.
        Edit = "edit",
        /// A message was deleted.
        Delete = "delete",
        /// A member reacted to a message.
        Reaction = "reaction",
        /// A member told what it is doing.
        Status = "status",
        /// An agent called a tool.
        ToolCall = "tool_call",
        /// A tool returned a result.
        ToolResult = "tool_result",
        Error = "error",
        /// An agent began or ended its work.
        Lifecycle = "lifecycle",
        Join = "join",
        /// A member left or was removed.
        Leave = "leave",
        /// The conversation's settings changed.
        Change = "change",
        /// A document has a new version.
        Artifact = "artifact",
        /// A relay envelope between two agents.
        Envelope = "envelope",
        /// A message from another service's channel.
        Foreign = "foreign",
        /// An agent did not answer, so another member is notified.
        Escalation = "escalation",
        /// A job for an agent.
        Job = "job",
        /// A summary of activity for a lead.
        Digest = "digest",
        /// Somebody stopped the work of agents.
        Stop = "stop",
    }

    /// The kind of an inbox entry, which is the name of its server-sent event.
    pub enum EntryKind {
        Message = "message",
        /// An event in a conversation of the hub.
        Chat = "chat",
        /// A message from another service's channel.
        Channel = "channel",
        /// A job for which the agent was hired.
        Job = "job",
        /// The result of a job that the agent commissioned. It is POSTed to the address given with the job and
        /// never streamed.
        Result = "result",
        /// A request for an offer.
        Quote = "quote",
        /// A summary of activity in a channel or work stream that the agent leads.
        Digest = "digest",
    }

    /// The way in which a delivery reaches its agent.
    pub enum Transport {
        /// The agent reads it from its inbox.
        Inbox = "inbox",
        /// The hub POSTs it to the agent's C2A harness.
        Harness = "harness",
        /// The hub POSTs it to the agent's endpoint.
        Webhook = "webhook",
        /// The hub POSTs it to the agent's connection string.
        Channel = "channel",
    }

    /// The state of a delivery.
    pub enum DeliveryState {
        /// The recipient's endpoint accepted it.
        Delivered = "delivered",
        /// It is committed, and the recipient's inbox stream was open.
        DeliveredSse = "delivered_sse",
        /// It is committed and waits in the recipient's inbox.
        Queued = "queued",
        /// The recipient's endpoint rejected it. This state is final: the hub does not retry by itself.
        Failed = "failed",
        /// A request to the recipient's endpoint is under way. It appears in histories only.
        Sending = "sending",
        /// The hub retries until the recipient accepts it. Relay sends never have this state.
        Waiting = "waiting",
        /// The hub gave up after a day of retries. The delivery can be replayed.
        Dead = "dead",
    }

    /// An agent's handling of an event.
    pub enum Disposition {
        /// The agent answered or did what was asked.
        Responded = "responded",
        /// The agent acknowledged the event.
        Acknowledged = "acknowledged",
        /// The agent will handle the event later.
        Deferred = "deferred",
        /// The agent claimed the event and is not done.
        Claimed = "claimed",
        /// The event needed no action.
        Ignored = "ignored",
        /// An edit, a deletion or a newer message replaced the event.
        Superseded = "superseded",
        /// The agent could not process the event.
        Failed = "failed",
    }

    /// The state of a claim.
    pub enum ClaimState {
        /// An agent holds the claim.
        Held = "held",
        /// The holder gave the claim up.
        Released = "released",
        /// The claimed event was dealt with.
        Resolved = "resolved",
        /// The claim's time ran out.
        Expired = "expired",
    }

    /// The reason for an attention decision.
    pub enum Reason {
        /// The event is in a direct conversation.
        DirectMessage = "direct_message",
        /// The event mentions the agent.
        DirectMention = "direct_mention",
        /// The event asks a question in a thread of the agent.
        ThreadQuestion = "thread_question",
        /// The event assigns work to the agent.
        Assignment = "assignment",
        /// The event requests or gives approval.
        Approval = "approval",
        /// The author is blocked.
        Blocker = "blocker",
        /// The event cancels work under way.
        Cancellation = "cancellation",
        /// The event concerns safety.
        Safety = "safety",
        /// The event mentions a role of the agent.
        RoleMention = "role_mention",
        /// The agent has written in the event's thread.
        ThreadParticipation = "thread_participation",
        /// The agent owns the work stream.
        StreamOwner = "stream_owner",
        /// The event only expresses thanks.
        Thanks = "thanks",
        /// The event only acknowledges another.
        Acknowledgement = "acknowledgement",
        /// The event is addressed to someone else.
        AddressedToOther = "addressed_to_other",
        /// An agent wrote the event, and it asks for nothing.
        AgentNoTask = "agent_no_task",
        /// The event mentions nobody.
        Unmentioned = "unmentioned",
        /// The event reports a status.
        StatusBroadcast = "status_broadcast",
        /// The event is a digest.
        Digest = "digest",
        /// The event was edited after the agent had answered.
        EditedAfterResponse = "edited_after_response",
        /// Another agent did not answer in time.
        Escalation = "escalation",
        /// The event is too old.
        Stale = "stale",
        /// Agents have exchanged too many turns without a person.
        LoopGuard = "loop_guard",
        /// Someone reacted to a message of the agent.
        InboundReaction = "inbound_reaction",
    }

    /// The intent of a message.
    pub enum Intent {
        /// The message asks a question.
        Question = "question",
        /// The message assigns work.
        Assignment = "assignment",
        /// The message requests approval.
        ApprovalRequest = "approval_request",
        /// The message gives approval.
        Approval = "approval",
        /// The author reports being blocked.
        Blocker = "blocker",
        /// The message cancels work under way.
        Cancellation = "cancellation",
        /// The message concerns safety.
        Safety = "safety",
        /// The message expresses thanks.
        Thanks = "thanks",
        /// The message acknowledges another.
        Acknowledgement = "acknowledgement",
        /// The message reports a status.
        Status = "status",
        /// The message reports progress.
        Progress = "progress",
        /// The message is for the record.
        Log = "log",
        /// The message is conversation.
        Chat = "chat",
    }

    /// The rules that found the intent of a message, the strongest first.
    pub enum Layer {
        /// The author declared the intent.
        Declared = "declared",
        /// The message answers a question of the agent that it is for.
        Structure = "structure",
        /// The words of the message.
        Lexicon = "lexicon",
    }

    /// The certainty of an intent.
    pub enum Confidence {
        /// The words hint at the intent, and may as well mean something else.
        Low = "low",
        /// The message opens, ends or is marked as messages with this intent are.
        Medium = "medium",
        /// The author declared it, the conversation implies it, or the message says nothing else.
        High = "high",
    }

    /// The priority of a message.
    pub enum Priority {
        /// The message can wait.
        Low = "low",
        Normal = "normal",
        /// The message precedes messages of normal priority.
        High = "high",
        /// The message precedes everything else.
        Urgent = "urgent",
    }

    /// The meaning of a reaction.
    pub enum Signal {
        /// The author has read the message and promises nothing.
        Seen = "seen",
        /// The author understands or approves.
        Agree = "agree",
        /// The author is working on it.
        Working = "working",
        /// The author accepts it and has other work first.
        Queued = "queued",
        /// The author takes the work.
        Claimed = "claimed",
        /// The work is finished.
        Done = "done",
        Declined = "declined",
        /// The author lacks something it needs.
        Blocked = "blocked",
        /// The author does not understand the message.
        Unclear = "unclear",
        /// The author stops the work that the message is about, if it may.
        Stop = "stop",
    }

    /// The target of an event as seen by one agent.
    pub enum Directedness {
        /// The event is aimed at this agent.
        ToMe = "to_me",
        /// The event is aimed at a role, a thread or a work stream of the agent.
        ToMyRole = "to_my_role",
        /// The event is aimed at someone else.
        ToOther = "to_other",
        /// The event is aimed at nobody.
        Ambient = "ambient",
    }

    /// The response expected of an agent.
    pub enum Policy {
        /// The agent must answer or defer.
        MustRespond = "must_respond",
        /// The agent answers if that helps.
        MayRespond = "may_respond",
        /// The agent may acknowledge the event and nothing more.
        AckOnly = "ack_only",
        /// The agent must stay silent.
        MustNotRespond = "must_not_respond",
    }

    /// The way in which an event enters an agent's work.
    pub enum Mode {
        /// The event is delivered at once.
        Immediate = "immediate",
        /// The event is delivered with related ones after its author pauses.
        Buffered = "buffered",
        /// The agent is notified without the content.
        Notify = "notify",
        /// The agent finds the event when it reads its mailbox.
        ToolMailbox = "tool_mailbox",
        /// The event becomes part of a digest.
        Digest = "digest",
        /// The event is stored and never shown.
        Silent = "silent",
    }

    /// The kind of a conversation on the C2A wire, where threads and messages from the hub have kinds of their
    /// own.
    pub enum WireConversationKind {
        /// A direct conversation of two.
        Dm = "dm",
        Channel = "channel",
        /// A thread in a channel or a direct conversation.
        Thread = "thread",
        /// The hub: a digest, an escalation or a notice.
        System = "system",
        Tool = "tool",
    }

    /// The kind of an author.
    pub enum AuthorKind {
        /// A person.
        Human = "human",
        Agent = "agent",
        /// The hub itself.
        System = "system",
    }

    /// The kind of a caller or actor.
    pub enum PrincipalKind {
        /// A person, identified by an account.
        Account = "account",
        Agent = "agent",
        /// The owner of a wallet, identified by an owner key.
        Owner = "owner",
        /// The operator of the hub.
        Operator = "operator",
        /// A caller without a key.
        Nobody = "nobody",
        /// The hub itself.
        System = "system",
    }

    /// The readers of an agent's message.
    pub enum Visibility {
        /// The other member of a direct conversation.
        Dm = "dm",
        /// The readers of the thread.
        Thread = "thread",
        /// The readers of the channel.
        Channel = "channel",
        /// The readers who are online now; afterwards it exists in the audit log only.
        Ephemeral = "ephemeral",
    }

    /// The state of a message held for approval.
    pub enum ApprovalState {
        /// The message waits for a person's decision.
        Held = "held",
        /// A person approved the message, and it was posted.
        Agreed = "agreed",
        /// A person declined the message.
        Declined = "declined",
        /// The author withdrew the message.
        Withdrawn = "withdrawn",
        /// Nobody decided in time.
        Expired = "expired",
        /// The author left or was blocked, or the conversation was archived.
        Ended = "ended",
    }
}

/// The origin of an event, which decides the meaning of an answer to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventSource {
    /// It happened in a conversation of the hub.
    Conversation,
    /// A relay envelope between two agents.
    Envelope,
    /// A message from another service's channel.
    Foreign,
    /// A job for an agent.
    Job,
    /// A summary by the hub.
    Digest,
}

impl EventKind {
    pub const fn source(self) -> EventSource {
        match self {
            Self::Message
            | Self::Edit
            | Self::Delete
            | Self::Reaction
            | Self::Status
            | Self::ToolCall
            | Self::ToolResult
            | Self::Error
            | Self::Lifecycle
            | Self::Join
            | Self::Leave
            | Self::Change
            | Self::Artifact
            | Self::Escalation
            | Self::Stop => EventSource::Conversation,
            Self::Envelope => EventSource::Envelope,
            Self::Foreign => EventSource::Foreign,
            Self::Job => EventSource::Job,
            Self::Digest => EventSource::Digest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Checks that the list is complete and that each word is written and parsed with one spelling.
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
                "leave" "change" "artifact" "envelope" "foreign" "escalation" "job" "digest" "stop";
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
            Layer: "declared" "structure" "lexicon";
            Confidence: "low" "medium" "high";
            Priority: "low" "normal" "high" "urgent";
            Signal: "seen" "agree" "working" "queued" "claimed" "done" "declined" "blocked" "unclear" "stop";
            Directedness: "to_me" "to_my_role" "to_other" "ambient";
            Policy: "must_respond" "may_respond" "ack_only" "must_not_respond";
            Mode: "immediate" "buffered" "notify" "tool_mailbox" "digest" "silent";
            WireConversationKind: "dm" "channel" "thread" "system" "tool";
            AuthorKind: "human" "agent" "system";
            PrincipalKind: "account" "agent" "owner" "operator" "nobody" "system";
            Visibility: "dm" "thread" "channel" "ephemeral";
            ApprovalState: "held" "agreed" "declined" "withdrawn" "expired" "ended";
            Action: "account.made" "account.disabled" "account.enabled" "account.deleted" "agent.claimed" "agent.disabled"
                "agent.enabled" "agent.registered" "agent.unregistered" "agent.updated" "allowance.set" "approval.held" "approval.agreed"
                "approval.declined" "approval.withdrawn" "approval.expired" "approval.ended" "channel.owner_changed"
                "connection.set" "connection.removed" "harness.set" "harness.removed" "connection_string.rotated" "deliveries.replayed"
                "invitation.made" "invitation.revoked" "key.rotated" "key.reset" "owner_key.reset" "message.shown" "master_key.replaced" "credits.minted" "credits.burned"
                "member.added" "member.changed" "member.removed" "receipt.issued"
                "score.claimed" "sessions.ended" "signing_secret.made" "signing_secret.revoked" "skills.offered" "stream.made" "stream.changed"
                "stream.closed" "stream.joined" "stream.left" "token.made" "token.revoked" "webhook_secret.rotated";
        }
    }
}
