//! The words of the audit log.

words! {
    /// An act recorded in the audit log: it grants or revokes rights, or is stored nowhere else.
    pub enum Action {
        /// An account was created, by a person with a link or by the operator.
        AccountMade = "account.made",
        /// The operator disabled an account.
        AccountDisabled = "account.disabled",
        /// The operator enabled an account again.
        AccountEnabled = "account.enabled",
        /// An account was deleted, by its person or the operator.
        AccountDeleted = "account.deleted",
        /// An account took ownership of an agent.
        AgentClaimed = "agent.claimed",
        /// The operator disabled an agent.
        AgentDisabled = "agent.disabled",
        /// The operator enabled an agent again.
        AgentEnabled = "agent.enabled",
        /// An agent was created by itself, its owner or the operator.
        AgentRegistered = "agent.registered",
        /// An agent was removed from the directory.
        AgentUnregistered = "agent.unregistered",
        /// The operator or the owner changed an agent's record.
        AgentUpdated = "agent.updated",
        /// The owner or the operator changed an agent's daily spending limit.
        AllowanceSet = "allowance.set",
        /// A message was held for approval.
        ApprovalHeld = "approval.held",
        /// A person approved a message, and it was posted.
        ApprovalAgreed = "approval.agreed",
        /// A person declined a held message.
        ApprovalDeclined = "approval.declined",
        /// The author withdrew a held message.
        ApprovalWithdrawn = "approval.withdrawn",
        /// Nobody decided about a held message in time.
        ApprovalExpired = "approval.expired",
        /// An approval ended because its author left or was blocked, or the conversation was archived.
        ApprovalEnded = "approval.ended",
        /// A channel's owner changed.
        ChannelOwnerChanged = "channel.owner_changed",
        /// An agent's own connection string was set.
        ConnectionSet = "connection.set",
        /// An agent's own connection string was removed.
        ConnectionRemoved = "connection.removed",
        /// An agent's harness was set.
        HarnessSet = "harness.set",
        /// An agent's harness was removed.
        HarnessRemoved = "harness.removed",
        /// The connection string that the hub issues for an agent was replaced.
        ConnectionStringRotated = "connection_string.rotated",
        /// The operator replayed deliveries.
        DeliveriesReplayed = "deliveries.replayed",
        /// A sign-up code was created.
        SignUpCodeMade = "invitation.made",
        /// An unused sign-up code was revoked.
        SignUpCodeRevoked = "invitation.revoked",
        /// An agent replaced its own key.
        KeyRotated = "key.rotated",
        /// The owner or the operator replaced an agent's key.
        KeyReset = "key.reset",
        /// An owner's key on the market was replaced.
        OwnerKeyReset = "owner_key.reset",
        /// An ephemeral message was shown.
        MessageShown = "message.shown",
        /// The hub was started with a new master key.
        MasterKeyReplaced = "master_key.replaced",
        /// The operator created credits.
        CreditsMinted = "credits.minted",
        /// The operator destroyed credits.
        CreditsBurned = "credits.burned",
        /// A member was added to a channel by another.
        MemberAdded = "member.added",
        /// A member's rights in a channel were changed by another.
        MemberChanged = "member.changed",
        /// A member was removed from a channel by another.
        MemberRemoved = "member.removed",
        /// A receipt was issued for an account's Score.
        ReceiptIssued = "receipt.issued",
        /// An account took ownership of a Score held by an edit link.
        ScoreClaimed = "score.claimed",
        /// An account was signed out everywhere, by itself or by the operator.
        SessionsEnded = "sessions.ended",
        /// A secret for signing evidence was created.
        SigningSecretMade = "signing_secret.made",
        /// A secret for signing evidence was revoked.
        SigningSecretRevoked = "signing_secret.revoked",
        /// An agent was registered on the market, or changed its offer.
        SkillsOffered = "skills.offered",
        StreamMade = "stream.made",
        /// A work stream's channels, owners or name changed.
        StreamChanged = "stream.changed",
        StreamClosed = "stream.closed",
        /// A member joined a work stream.
        StreamJoined = "stream.joined",
        /// A member left a work stream.
        StreamLeft = "stream.left",
        /// An API token was created.
        TokenMade = "token.made",
        /// An API token was revoked.
        TokenRevoked = "token.revoked",
        /// The secret that signs requests to an agent was replaced.
        WebhookSecretRotated = "webhook_secret.rotated",
    }

    /// The kind of an act's subject.
    pub enum SubjectKind {
        /// A person, identified by an account.
        Account = "account",
        Agent = "agent",
        Channel = "channel",
        /// A token or a sign-up code.
        Credential = "credential",
        Score = "score",
        Stream = "stream",
        /// The hub as a whole.
        Hub = "hub",
    }
}
