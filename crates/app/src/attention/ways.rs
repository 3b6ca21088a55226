//! What the ways to agents can show, and which decisions are deliveries at all.

use chorus_attention::capabilities::Capabilities;
use chorus_protocol::c2a::InjectionCapabilities;
use chorus_protocol::ids::AgentId;
use chorus_protocol::words::Mode;
use chorus_store::{StoreError, Tx, inboxes};

/// What a way to an agent shows that knows no knocks: an inbox as server-sent events, an endpoint, a connection string.
pub(super) const WITHOUT_KNOCKS: Capabilities = Capabilities {
    immediate: true,
    buffered: true,
    notify: false,
    tool_mailbox: true,
    digest: false,
    interrupt: false,
};

/// What the way to an agent shows now.
pub(super) fn shows(tx: &mut dyn Tx, agent: AgentId, now: i64) -> Result<Capabilities, StoreError> {
    Ok(inboxes::shows(tx, agent, now)?.map_or(WITHOUT_KNOCKS, |words| of_words(&words)))
}

/// What a session shows that is kept with these words.
pub(crate) fn of_words(words: &str) -> Capabilities {
    let has = |mode: Mode| words.split(' ').any(|word| word == mode.as_str());
    Capabilities {
        immediate: has(Mode::Immediate),
        buffered: has(Mode::Buffered),
        notify: has(Mode::Notify),
        tool_mailbox: has(Mode::ToolMailbox),
        digest: has(Mode::Digest),
        interrupt: false,
    }
}

/// The same as the words that a session is kept with.
pub(crate) fn words(shows: InjectionCapabilities) -> String {
    // What must be answered is brought to every session: one that names no way to be shown anything is shown it at once.
    let immediate = shows.immediate || !(shows.buffered || shows.notify);
    let modes = [
        (immediate, Mode::Immediate),
        (shows.buffered, Mode::Buffered),
        (shows.notify, Mode::Notify),
        (shows.tool_mailbox, Mode::ToolMailbox),
        (shows.digest, Mode::Digest),
    ];
    let words: Vec<_> = modes.iter().filter(|(has, _)| *has).map(|(_, mode)| mode.as_str()).collect();
    words.join(" ")
}

/// Whether something of this mode is brought to an agent. Everything else it finds when it looks.
pub(super) fn is_delivered(mode: Mode) -> bool {
    match mode {
        Mode::Immediate | Mode::Buffered | Mode::Notify => true,
        Mode::ToolMailbox | Mode::Digest | Mode::Silent => false,
    }
}
