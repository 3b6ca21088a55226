//! Secrets that are derived instead of stored: from the hub's master key, for one purpose and one owner each.
//!
//! So the database holds none of them, and whoever reads it can sign nothing.

pub mod fingerprint;
mod places;
pub mod sealed_posts;
pub mod webhooks;

use crate::source::Source;
use chorus_protocol::credentials::SecretKind;
use chorus_protocol::ids::{AgentId, ConversationId, DeliveryId, JobId, ScoreId};
use data_encoding::{BASE64, BASE64URL_NOPAD, HEXLOWER};
use hmac::{Hmac, KeyInit, Mac};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use sha2::Sha256;
use subtle::ConstantTimeEq;
use uuid::Uuid;

/// The key all others are derived from, and the one it replaces while that is still read.
#[derive(Clone)]
pub struct MasterKey([u8; 32], Option<Box<MasterKey>>);

impl MasterKey {
    /// From 32 random bytes, the same on all nodes of a hub.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes, None)
    }

    /// The same key; what `previous` signed and sealed is read too.
    pub fn replacing(self, previous: [u8; 32]) -> Self {
        Self(self.0, Some(Box::new(Self::new(previous))))
    }

    /// The key this one replaces.
    pub fn previous(&self) -> Option<&Self> {
        self.1.as_deref()
    }

    /// Returns a fingerprint that identifies this key without revealing it.
    pub fn fingerprint(&self) -> String {
        HEXLOWER.encode(&mac(&self.0, &[b"fingerprint\0"])[..16])
    }

    /// Tries to read something with this key, then with the previous one.
    fn either<T>(&self, read: impl Fn(&Self) -> Option<T>) -> Option<T> {
        read(self).or_else(|| self.previous().and_then(&read))
    }

    /// Returns the secret that signs requests to one agent's endpoint, after this many rotations.
    pub fn webhook_secret(&self, agent: &[u8], rotations: i64) -> WebhookSecret {
        let number = rotations.to_be_bytes();
        // Before the first one there was no number.
        let number = if rotations == 0 { [].as_slice() } else { &number };
        WebhookSecret(mac(&self.0, &[b"webhook\0", agent, number]))
    }
}

impl MasterKey {
    /// The secret with which evidence for one Score is signed: derived, so that the database holds none.
    pub fn signing_secret(&self, score: ScoreId, secret: Uuid) -> String {
        let mac = mac(&self.0, &[b"choir-signing-v1", score.as_bytes(), secret.as_bytes()]);
        token_text(SecretKind::IngestSecret, &BASE64URL_NOPAD.encode(&mac))
    }

    /// The same by this key and by the one it replaces: either is good while both are known.
    pub fn signing_secrets(&self, score: ScoreId, secret: Uuid) -> Vec<String> {
        let both = [Some(self), self.previous()];
        both.into_iter().flatten().map(|key| key.signing_secret(score, secret)).collect()
    }

    /// Returns the seed of the key that signs attestations and checkpoints.
    pub fn attestation_seed(&self, generation: i64) -> [u8; 32] {
        mac(&self.0, &[b"attest\0", generation.to_string().as_bytes()])
    }
}

/// The content of a callback's address: the delivery it answers, its creation time, and the epoch of the
/// agent's route then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallbackToken {
    pub delivery: DeliveryId,
    pub made_at: i64,
    pub epoch: i64,
}

impl MasterKey {
    /// Seals what the database must keep but not tell, for one owner.
    pub fn seal(&self, nonce: [u8; 12], owner: &[u8], secret: &str) -> Option<Vec<u8>> {
        let mut sealed = secret.as_bytes().to_vec();
        let nonce_used = Nonce::assume_unique_for_key(nonce);
        self.sealing_key()?.seal_in_place_append_tag(nonce_used, Aad::from(owner), &mut sealed).ok()?;
        Some([nonce.as_slice(), &sealed].concat())
    }

    /// Opens what [`Self::seal`] made for the same owner, with this key or the previous one.
    pub fn open(&self, owner: &[u8], sealed: &[u8]) -> Option<String> {
        self.either(|key| key.open_own(owner, sealed))
    }

    /// Opens what this very key sealed, not the previous one.
    pub fn open_own(&self, owner: &[u8], sealed: &[u8]) -> Option<String> {
        let (nonce, sealed) = sealed.split_first_chunk::<12>()?;
        let mut opened = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = self.sealing_key()?.open_in_place(nonce, Aad::from(owner), &mut opened).ok()?;
        String::from_utf8(opened.to_vec()).ok()
    }

    fn sealing_key(&self) -> Option<LessSafeKey> {
        let key = UnboundKey::new(&CHACHA20_POLY1305, &mac(&self.0, &[b"seal\0"])).ok()?;
        Some(LessSafeKey::new(key))
    }

    /// Signs a token that lets one agent answer one delivery.
    pub fn callback_token(&self, token: CallbackToken) -> String {
        let CallbackToken { delivery, made_at, epoch } = token;
        let numbers = [delivery.seq, made_at, epoch].map(i64::to_be_bytes).concat();
        let content = [delivery.agent.as_bytes(), &numbers].concat();
        let mac = mac(&self.0, &[b"callback\0", &content]);
        token_text(
            SecretKind::CallbackToken,
            &BASE64URL_NOPAD.encode(&[content.as_slice(), &mac[..16]].concat()),
        )
    }

    /// Reads what [`Self::callback_token`] made.
    pub fn read_callback_token(&self, token: &str) -> Option<CallbackToken> {
        let bytes = BASE64URL_NOPAD
            .decode(token.strip_prefix(SecretKind::CallbackToken.prefix())?.as_bytes())
            .ok()?;
        let (agent, rest) = bytes.split_at_checked(16)?;
        let number = |at: usize| Some(i64::from_be_bytes(rest.get(at..at + 8)?.try_into().ok()?));
        let delivery = DeliveryId { agent: AgentId::from_slice(agent)?, seq: number(0)? };
        let read = CallbackToken { delivery, made_at: number(8)?, epoch: number(16)? };
        self.either(|key| same(&key.callback_token(read), token).then_some(read))
    }

    /// Signs a token that lets a receiver answer message `seq` of its inbox with a stream.
    pub fn reply_token(&self, agent: AgentId, seq: i64) -> String {
        let place = [agent.as_bytes(), &seq.to_be_bytes()].concat();
        let mac = mac(&self.0, &[b"reply\0", &place]);
        token_text(SecretKind::CallbackToken, &HEXLOWER.encode(&[place.as_slice(), &mac[..16]].concat()))
    }

    /// Signs a token that lets an agent report the result of a job until it gets another key (its next epoch).
    pub fn job_token(&self, job: JobId, agent: AgentId, epoch: i64) -> String {
        let epoch = epoch.to_be_bytes();
        let mac = mac(&self.0, &[b"job\0", job.as_bytes(), agent.as_bytes(), &epoch]);
        let token = [agent.as_bytes(), &epoch, &mac[..16]].concat();
        token_text(SecretKind::CallbackToken, &HEXLOWER.encode(&token))
    }

    /// The agent that was given this for a job, and in which epoch, if it is genuine.
    pub fn read_job_token(&self, job: JobId, token: &str) -> Option<(AgentId, i64)> {
        let bytes =
            HEXLOWER.decode(token.strip_prefix(SecretKind::CallbackToken.prefix())?.as_bytes()).ok()?;
        let (agent, rest) = bytes.split_at_checked(16)?;
        let (epoch, _) = rest.split_first_chunk::<8>()?;
        let (agent, epoch) = (AgentId::from_slice(agent)?, i64::from_be_bytes(*epoch));
        self.either(|key| same(&key.job_token(job, agent, epoch), token).then_some((agent, epoch)))
    }

    /// Reads what [`Self::reply_token`] made.
    pub fn read_reply_token(&self, token: &str) -> Option<(AgentId, i64)> {
        let bytes =
            HEXLOWER.decode(token.strip_prefix(SecretKind::CallbackToken.prefix())?.as_bytes()).ok()?;
        let (agent, rest) = bytes.split_at_checked(16)?;
        let (seq, _) = rest.split_first_chunk::<8>()?;
        let (agent, seq) = (AgentId::from_slice(agent)?, i64::from_be_bytes(*seq));
        self.either(|key| same(&key.reply_token(agent, seq), token).then_some((agent, seq)))
    }
}

impl MasterKey {
    /// Signs a token that gives a browser the operator's rights until a time. It also ends when the operator's
    /// key changes.
    pub fn operator_token(&self, operator_key: &[u8; 32], until: i64) -> String {
        let until = until.to_be_bytes();
        let mac = mac(&self.0, &[b"operator\0", operator_key, &until]);
        HEXLOWER.encode(&[until.as_slice(), &mac].concat())
    }

    /// Until when a token is good that [`Self::operator_token`] made.
    pub fn read_operator_token(&self, operator_key: &[u8; 32], token: &str) -> Option<i64> {
        let bytes = HEXLOWER.decode(token.as_bytes()).ok()?;
        let until = i64::from_be_bytes(*bytes.split_first_chunk::<8>()?.0);
        self.either(|key| same(&key.operator_token(operator_key, until), token).then_some(until))
    }
}

fn token_text(kind: SecretKind, content: &str) -> String {
    format!("{}{content}", kind.prefix())
}

fn same(genuine: &str, given: &str) -> bool {
    genuine.as_bytes().ct_eq(given.as_bytes()).into()
}

fn mac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    // HMAC takes keys of any length.
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key).expect("a key of any length");
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

/// Signs as Standard Webhooks says, so that receivers can check with any library for it.
pub struct WebhookSecret([u8; 32]);

impl WebhookSecret {
    /// As the agent's owner pastes it into a verifier.
    pub fn printed(&self) -> String {
        format!("{}{}", SecretKind::WebhookSecret.prefix(), BASE64.encode(&self.0))
    }

    /// A signature of a request.
    pub fn sign(&self, id: &str, timestamp_s: i64, body: &[u8]) -> String {
        let time = timestamp_s.to_string();
        let signature = mac(&self.0, &[id.as_bytes(), b".", time.as_bytes(), b".", body]);
        format!("v1,{}", BASE64.encode(&signature))
    }
}

/// The time for which an agent may use the tools of a channel after a message.
pub const MCP_LIFE_MS: i64 = 24 * 60 * 60 * 1000;

/// A token with which an agent uses the tools of one channel until `expires_at`, as long as its epoch stays the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct McpToken {
    pub agent: AgentId,
    pub channel: ConversationId,
    pub expires_at: i64,
    pub epoch: i64,
}

impl MasterKey {
    /// Signs a token for an agent to use the tools of one channel.
    pub fn mcp_token(&self, token: McpToken) -> String {
        let McpToken { agent, channel, expires_at, epoch } = token;
        let numbers = [expires_at, epoch].map(i64::to_be_bytes).concat();
        let content = [agent.as_bytes(), channel.as_bytes(), &numbers].concat();
        let mac = mac(&self.0, &[b"mcp\0", &content]);
        token_text(SecretKind::McpToken, &BASE64URL_NOPAD.encode(&[content.as_slice(), &mac[..16]].concat()))
    }

    /// Reads what [`Self::mcp_token`] made.
    pub fn read_mcp_token(&self, token: &str) -> Option<McpToken> {
        let bytes =
            BASE64URL_NOPAD.decode(token.strip_prefix(SecretKind::McpToken.prefix())?.as_bytes()).ok()?;
        let (agent, rest) = bytes.split_at_checked(16)?;
        let (channel, rest) = rest.split_at_checked(16)?;
        let number = |at: usize| Some(i64::from_be_bytes(rest.get(at..at + 8)?.try_into().ok()?));
        let read = McpToken {
            agent: AgentId::from_slice(agent)?,
            channel: ConversationId::from_slice(channel)?,
            expires_at: number(0)?,
            epoch: number(8)?,
        };
        self.either(|key| same(&key.mcp_token(read), token).then_some(read))
    }
}

/// The content of a token that lets a browser open an agent's inbox: the agent, the expiry and a mark of its
/// key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InboxToken {
    pub agent: AgentId,
    pub expires_at: i64,
    /// A mark that identifies the agent's key without revealing it.
    pub key_mark: [u8; 8],
}

impl MasterKey {
    /// Returns the mark of a key's hash for an [`InboxToken`].
    pub fn key_mark(&self, key: &[u8; 32]) -> [u8; 8] {
        let whole = mac(&self.0, &[b"inbox key\0", key]);
        std::array::from_fn(|n| whole[n])
    }

    /// Returns a mark that identifies a source of requests. Without the key it does not reveal the address.
    pub fn source_mark(&self, source: Source) -> [u8; 16] {
        let whole = mac(&self.0, &[b"registering source\0", source.to_string().as_bytes()]);
        std::array::from_fn(|n| whole[n])
    }

    /// Signs a token that opens an inbox.
    pub fn inbox_token(&self, token: InboxToken) -> String {
        let InboxToken { agent, expires_at, key_mark } = token;
        let content = [agent.as_bytes(), &expires_at.to_be_bytes(), key_mark.as_slice()].concat();
        let mac = mac(&self.0, &[b"inbox\0", &content]);
        token_text(
            SecretKind::InboxSession,
            &BASE64URL_NOPAD.encode(&[content.as_slice(), &mac[..16]].concat()),
        )
    }

    /// Reads what [`Self::inbox_token`] made. One of the previous key is not read: it would be over in a moment anyway.
    pub fn read_inbox_token(&self, token: &str) -> Option<InboxToken> {
        let bytes =
            BASE64URL_NOPAD.decode(token.strip_prefix(SecretKind::InboxSession.prefix())?.as_bytes()).ok()?;
        let (agent, rest) = bytes.split_at_checked(16)?;
        let (expires_at, rest) = rest.split_first_chunk::<8>()?;
        let (key_mark, _) = rest.split_first_chunk::<8>()?;
        let expires_at = i64::from_be_bytes(*expires_at);
        let read = InboxToken { agent: AgentId::from_slice(agent)?, expires_at, key_mark: *key_mark };
        same(&self.inbox_token(read), token).then_some(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the Standard Webhooks specification's reference libraries.
    #[test]
    fn agrees_with_the_reference_vector() {
        let secret = BASE64.decode(b"MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signed = mac(&secret, &[b"msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330.{\"test\": 2432232314}"]);
        assert_eq!(BASE64.encode(&signed), "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn reply_tokens_are_read_back_and_cannot_be_forged() {
        let master = MasterKey::new([7; 32]);
        let agent = AgentId(uuid::Uuid::from_u128(9));
        let token = master.reply_token(agent, 42);
        assert_eq!(master.read_reply_token(&token), Some((agent, 42)));
        assert_eq!(MasterKey::new([8; 32]).read_reply_token(&token), None);
        for forged in
            ["", "tok_", "tok_00", &token[..token.len() - 2], &token.replacen("2a", "2b", 1), "tok_zz"]
        {
            assert_eq!(master.read_reply_token(forged), None, "{forged}");
        }
    }

    #[test]
    fn job_tokens_are_of_one_job_and_one_agent() {
        let master = MasterKey::new([7; 32]);
        let (agent, job) = (AgentId(uuid::Uuid::from_u128(9)), JobId(uuid::Uuid::from_u128(3)));
        let token = master.job_token(job, agent, 2);
        assert_eq!(master.read_job_token(job, &token), Some((agent, 2)));
        let later = master.job_token(job, agent, 3);
        assert_eq!(master.read_job_token(job, &later), Some((agent, 3)));
        assert_eq!(master.read_job_token(JobId(uuid::Uuid::from_u128(4)), &token), None);
        assert_eq!(MasterKey::new([8; 32]).read_job_token(job, &token), None);
        assert_eq!(MasterKey::new([8; 32]).replacing([7; 32]).read_job_token(job, &token), Some((agent, 2)));
        for forged in
            ["", "tok_", "tok_00", &token[..token.len() - 2], &token.replacen("09", "0a", 1), "tok_zz"]
        {
            assert_eq!(master.read_job_token(job, forged), None, "{forged}");
        }
    }

    #[test]
    fn callback_tokens_are_read_back_and_cannot_be_forged() {
        let master = MasterKey::new([7; 32]);
        let delivery = DeliveryId { agent: AgentId(uuid::Uuid::from_u128(9)), seq: 42 };
        let token = CallbackToken { delivery, made_at: 1_700_000_000_000, epoch: 3 };
        let printed = master.callback_token(token);
        assert_eq!(master.read_callback_token(&printed), Some(token));
        assert_eq!(MasterKey::new([8; 32]).read_callback_token(&printed), None);
        let other = master.callback_token(CallbackToken { epoch: 4, ..token });
        for forged in
            ["", "tok_", "tok_AAAA", &printed[..printed.len() - 2], &[&other[..58], &printed[58..]].concat()]
        {
            assert_eq!(master.read_callback_token(forged), None, "{forged}");
        }
    }

    #[test]
    fn inbox_tokens_are_read_back_and_cannot_be_forged() {
        let master = MasterKey::new([7; 32]);
        let agent = AgentId(uuid::Uuid::from_u128(9));
        let token = InboxToken { agent, expires_at: 1_700_000_000_000, key_mark: master.key_mark(&[1; 32]) };
        let printed = master.inbox_token(token);
        assert_eq!(master.read_inbox_token(&printed), Some(token));
        assert_ne!(master.key_mark(&[1; 32]), master.key_mark(&[2; 32]));
        assert_eq!(MasterKey::new([8; 32]).read_inbox_token(&printed), None);
        let other = master.inbox_token(InboxToken { expires_at: 1_800_000_000_000, ..token });
        for forged in
            ["", "si_", "si_AAAA", &printed[..printed.len() - 2], &[&other[..45], &printed[45..]].concat()]
        {
            assert_eq!(master.read_inbox_token(forged), None, "{forged}");
        }
    }

    #[test]
    fn mcp_tokens_are_read_back_and_cannot_be_forged() {
        let master = MasterKey::new([7; 32]);
        let token = McpToken {
            agent: AgentId(uuid::Uuid::from_u128(9)),
            channel: ConversationId(uuid::Uuid::from_u128(10)),
            expires_at: 1_700_000_000_000,
            epoch: 3,
        };
        let printed = master.mcp_token(token);
        assert_eq!(master.read_mcp_token(&printed), Some(token));
        assert_eq!(MasterKey::new([8; 32]).read_mcp_token(&printed), None);
        let other =
            master.mcp_token(McpToken { channel: ConversationId(uuid::Uuid::from_u128(11)), ..token });
        for forged in
            ["", "mt_", "mt_AAAA", &printed[..printed.len() - 2], &[&other[..50], &printed[50..]].concat()]
        {
            assert_eq!(master.read_mcp_token(forged), None, "{forged}");
        }
    }

    #[test]
    fn the_previous_key_is_still_read() {
        let (old, new) = (MasterKey::new([7; 32]), MasterKey::new([8; 32]));
        let both = new.clone().replacing([7; 32]);
        let agent = AgentId(uuid::Uuid::from_u128(9));
        let delivery = DeliveryId { agent, seq: 42 };
        let callback = CallbackToken { delivery, made_at: 1_700_000_000_000, epoch: 3 };
        let channel = ConversationId(uuid::Uuid::from_u128(10));
        let mcp = McpToken { agent, channel, expires_at: 1_700_000_000_000, epoch: 3 };
        for key in [&old, &new] {
            assert_eq!(both.read_callback_token(&key.callback_token(callback)), Some(callback));
            assert_eq!(both.read_reply_token(&key.reply_token(agent, 42)), Some((agent, 42)));
            assert_eq!(both.read_mcp_token(&key.mcp_token(mcp)), Some(mcp));
            let sealed = key.seal([1; 12], b"owner", "secret").unwrap();
            assert_eq!(both.open(b"owner", &sealed).as_deref(), Some("secret"));
        }
        // New values are made with the new key.
        assert_eq!(new.read_callback_token(&both.callback_token(callback)), Some(callback));
        assert_eq!(both.fingerprint(), new.fingerprint());
        assert_ne!(old.fingerprint(), new.fingerprint());
        let sign = |key: &MasterKey| key.webhook_secret(b"a", 0).sign("msg_1", 1, b"{}");
        assert_eq!(sign(&both), sign(&new));
        assert_eq!(both.previous().map(sign), Some(sign(&old)));
    }

    #[test]
    fn what_is_sealed_is_opened_by_its_owner_only() {
        let master = MasterKey::new([7; 32]);
        let sealed = master.seal([1; 12], b"owner", "https://agent.example/inbox/sk_1").unwrap();
        assert_eq!(master.open(b"owner", &sealed).unwrap(), "https://agent.example/inbox/sk_1");
        assert!(!String::from_utf8_lossy(&sealed).contains("agent"));
        assert_eq!(master.open(b"other", &sealed), None);
        assert_eq!(MasterKey::new([8; 32]).open(b"owner", &sealed), None);
        assert_eq!(master.open(b"owner", &sealed[..20]), None);
    }

    /// The vector of the design of live rehearsals.
    #[test]
    fn the_attestation_key_follows_from_the_master_key() {
        let seed = HEXLOWER.encode(&MasterKey::new([7; 32]).attestation_seed(1));
        assert_eq!(seed, "8a971d54a17784bde51867e19cc2be0b2f05c9e1c6eb32f6477c496bace100c5");
    }

    #[test]
    fn each_signing_secret_is_its_own() {
        let (master, score) = (MasterKey::new([7; 32]), ScoreId(Uuid::from_u128(1)));
        let secret = master.signing_secret(score, Uuid::from_u128(2));
        assert!(secret.starts_with("acs_"));
        assert_ne!(secret, master.signing_secret(score, Uuid::from_u128(3)));
        assert_ne!(secret, master.signing_secret(ScoreId(Uuid::from_u128(2)), Uuid::from_u128(2)));
        let newer = MasterKey::new([8; 32]).replacing([7; 32]);
        assert!(newer.signing_secrets(score, Uuid::from_u128(2)).contains(&secret));
    }

    #[test]
    fn each_agent_has_its_own() {
        let master = MasterKey::new([7; 32]);
        let printed = |agent: &[u8], rotations| master.webhook_secret(agent, rotations).printed();
        assert_ne!(printed(b"a", 0), printed(b"b", 0));
        assert_ne!(printed(b"a", 0), printed(b"a", 1));
        assert_ne!(printed(b"a", 1), printed(b"a", 2));
        assert!(printed(b"a", 0).starts_with("whsec_"));
    }
}
