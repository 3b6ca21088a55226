//! Posts of other services, sealed for their event: their callbacks and bearer tokens are secrets that the database must not reveal.
//!
//! A sealed post names the key it was sealed with, so that posts of another key are found without opening any.

use super::MasterKey;
use chorus_protocol::ids::EventId;
use data_encoding::BASE64URL_NOPAD;

/// The beginning of a sealed post; an unsealed one is JSON.
const SEALED: &str = "sealed:";
/// Returned instead of a post that cannot be opened.
const UNREADABLE: &str =
    r#"{"error":"this message was sealed with a master key that this hub does not have any more"}"#;

/// Returns the text that every post sealed with this key begins with.
pub fn mark(master: &MasterKey) -> String {
    format!("{SEALED}{}:", &master.fingerprint()[..8])
}

/// Returns a post in its stored form.
pub fn seal_post(master: &MasterKey, nonce: [u8; 12], event: EventId, body: &str) -> Option<String> {
    let sealed = master.seal(nonce, event.as_bytes(), body)?;
    Some(format!("{}{}", mark(master), BASE64URL_NOPAD.encode(&sealed)))
}

/// Returns a stored post as it came.
pub fn open_post(master: &MasterKey, event: EventId, stored: &str) -> String {
    try_open(master, event, stored).unwrap_or_else(|| {
        tracing::warn!(%event, "a post of another service cannot be opened with this master key");
        UNREADABLE.into()
    })
}

/// Opens a stored post. Returns `None` if neither the current nor the previous key sealed it.
pub fn try_open(master: &MasterKey, event: EventId, stored: &str) -> Option<String> {
    let Some(sealed) = stored.strip_prefix(SEALED) else { return Some(stored.into()) };
    let (_, sealed) = sealed.split_once(':')?;
    master.open(event.as_bytes(), &BASE64URL_NOPAD.decode(sealed.as_bytes()).ok()?)
}
