//! A conversation as the place in which tools are called.

use super::context::Context;
use super::document;
use super::place::{Place, Running};
use chorus_node::Error;
use chorus_node::telemetry::tool_log;
use chorus_protocol::ids::EventId;
use serde_json::{Map, Value};

/// The arguments that name the event of a call.
const NAMING: [&str; 8] =
    ["event_id", "eventId", "reply_to", "in_reply_to", "inReplyTo", "thread", "thread_id", "threadId"];

impl Place for Context {
    async fn check(&self) -> Result<(), Error> {
        self.check_member().await
    }

    fn in_its_words(&self, name: &str, given: &Map<String, Value>) -> Option<Running> {
        document::call(self, name, given)
    }

    fn called(&self, tool: &str, arguments: &Map<String, Value>, outcome: &str) {
        let named = NAMING.iter().find_map(|name| arguments.get(*name)?.as_str());
        let about =
            tool_log::About { conversation: Some(self.conversation), event: named.and_then(EventId::parse) };
        self.app.telemetry.tool_log.note(
            self.app.environment.uuid_v7(),
            (self.door, self.who),
            tool,
            about,
            outcome,
        );
    }
}
