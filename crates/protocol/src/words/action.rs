//! The words of the audit log.

words! {
    /// What was done that gives or takes rights, or is kept nowhere else: the words of the audit log.
    pub enum Action {
        /// A person's account was made, by whoever used a link or by the operator.
        AccountMade = "account.made",
        /// The operator keeps an account out.
        AccountDisabled = "account.disabled",
        /// The operator lets it in again.
        AccountEnabled = "account.enabled",
        /// An account was deleted, by its person or the operator.
        AccountDeleted = "account.deleted",
        /// An agent came into an account.
        AgentClaimed = "agent.claimed",
        /// The operator keeps an agent out.
        AgentDisabled = "agent.disabled",
        /// The operator lets it in again.
        AgentEnabled = "agent.enabled",
        /// An agent was made, by itself, its owner or the operator.
        AgentRegistered = "agent.registered",
        /// An agent was taken out of the directory.
        AgentUnregistered = "agent.unregistered",
        /// The operator or its owner changed an agent's record.
        AgentUpdated = "agent.updated",
        /// A message waits until a person agrees.
        ApprovalHeld = "approval.held",
        /// A person agreed, and it was said.
        ApprovalAgreed = "approval.agreed",
        /// A person declined it.
        ApprovalDeclined = "approval.declined",
        /// Its author took it back.
        ApprovalWithdrawn = "approval.withdrawn",
        /// Nobody said anything in time.
        ApprovalExpired = "approval.expired",
        /// Its author left, or was kept out, or the conversation was archived.
        ApprovalEnded = "approval.ended",
        /// A channel has another owner.
        ChannelOwnerChanged = "channel.owner_changed",
        /// An agent's own connection string was set.
        ConnectionSet = "connection.set",
        /// It was taken away.
        ConnectionRemoved = "connection.removed",
        /// Where an agent's harness is POSTed to was set.
        HarnessSet = "harness.set",
        /// It was taken away.
        HarnessRemoved = "harness.removed",
        /// The connection string that the hub issues for an agent was replaced.
        ConnectionStringRotated = "connection_string.rotated",
        /// The operator had deliveries tried anew.
        DeliveriesReplayed = "deliveries.replayed",
        /// A sign-up code was made.
        SignUpCodeMade = "invitation.made",
        /// It was revoked before anybody used it.
        SignUpCodeRevoked = "invitation.revoked",
        /// An agent replaced its own key.
        KeyRotated = "key.rotated",
        /// Its owner or the operator replaced it.
        KeyReset = "key.reset",
        /// An owner's key on the market was replaced.
        OwnerKeyReset = "owner_key.reset",
        /// Something was said to whoever looked at that moment.
        MessageShown = "message.shown",
        /// The hub was started with a new master key.
        MasterKeyReplaced = "master_key.replaced",
        /// The operator made credits.
        CreditsMinted = "credits.minted",
        /// The operator took credits away.
        CreditsBurned = "credits.burned",
        /// Somebody was added to a channel by another.
        MemberAdded = "member.added",
        /// What somebody may do in a channel was changed by another.
        MemberChanged = "member.changed",
        /// Somebody was removed from a channel by another.
        MemberRemoved = "member.removed",
        /// A receipt was issued over an account's Score.
        ReceiptIssued = "receipt.issued",
        /// A Score that was held by an edit link came into an account.
        ScoreClaimed = "score.claimed",
        /// An account's browsers were signed out, by itself or by the operator.
        SessionsEnded = "sessions.ended",
        /// A secret was made with which evidence for an account's Score is signed.
        SigningSecretMade = "signing_secret.made",
        /// It was revoked.
        SigningSecretRevoked = "signing_secret.revoked",
        /// An agent came to the market, or changed what it says there.
        SkillsOffered = "skills.offered",
        /// A work stream was made.
        StreamMade = "stream.made",
        /// Where it goes on, whose it is, or what it is called was changed.
        StreamChanged = "stream.changed",
        /// It was closed.
        StreamClosed = "stream.closed",
        /// Somebody takes part in it.
        StreamJoined = "stream.joined",
        /// Somebody has no part in it any more.
        StreamLeft = "stream.left",
        /// A token for a program was made.
        TokenMade = "token.made",
        /// It was revoked.
        TokenRevoked = "token.revoked",
        /// The secret was replaced with which requests to an agent are signed.
        WebhookSecretRotated = "webhook_secret.rotated",
    }

    /// What kind of thing something was done to.
    pub enum SubjectKind {
        /// A person, by its account.
        Account = "account",
        /// An agent.
        Agent = "agent",
        /// A channel.
        Channel = "channel",
        /// A token or a sign-up code.
        Credential = "credential",
        /// A Score.
        Score = "score",
        /// A work stream.
        Stream = "stream",
        /// The hub as a whole.
        Hub = "hub",
    }
}
