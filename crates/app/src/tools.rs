//! The chat tools: what a model can do in a conversation, one table for every door that shows tools to models.
//!
//! A tool has a name, words that a model reads, the schemas of what goes in and out, and a function: what changes something
//! calls the same acts as `/api/v1`; what reads does it in pages of its own form, on the same store functions. What goes in is one struct: it is
//! checked, read and shown from one definition. Each call is answered only to a present member: acts look in the transaction in
//! which they work, and whoever is refused anything else is looked up first.
//!
//! Doors choose how tools are called and shown; nothing here knows a protocol. Who calls was found out by the door; what lasts
//! (a wait) looks again whether that still holds.

mod document;
mod documents;
mod holds;
mod input;
mod output;
mod reading;
mod reporting;
mod shown;
mod speaking;
mod table;
mod taking_on;
mod teaching;
mod waiting;

pub use documents::{document_slug, document_uri};
pub use holds::{Holds, key_holds, token_holds};
pub use reporting::{Hired, about as about_job, of_job};
pub use teaching::{instructions, participate};

use crate::app::AppState;
use crate::error::{Error, Refused};
use crate::once::Once;
use crate::tool_log;
use chorus_protocol::code::Code;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{ConversationId, EventId, Principal};
use chorus_protocol::schema;
use chorus_store::Tx;
use chorus_store::conversation;
use chorus_store::conversations::Conversation;
use chorus_store::members::Member;
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::sync::Arc;
use utoipa::ToSchema;

/// What one page of a list has at most, in bytes: a model must be able to read it.
const PAGE_BYTES: u64 = 256 * 1024;

/// Who calls, and where.
#[derive(Clone)]
pub struct Context {
    pub app: AppState,
    /// Which door asks: idempotency keys are its own.
    pub door: &'static str,
    pub who: Principal,
    pub holds: Holds,
    /// The conversation that the door's address names, or the call.
    pub conversation: ConversationId,
}

/// Where a tool is called, and by whom.
pub trait Place: Clone + Send + Sync + 'static {
    /// Whether the caller has any business here at all; whoever has none is kept out.
    fn check(&self) -> impl Future<Output = Result<(), Error>> + Send;

    /// The arguments of a call under this name, as the tools here take them.
    fn arguments(&self, _name: &str, given: Map<String, Value>) -> Result<Map<String, Value>, Error> {
        Ok(given)
    }

    /// A tool was called here, and what came of it.
    fn called(&self, _tool: &str, _arguments: &Map<String, Value>, _outcome: &str) {}
}

impl Place for Context {
    async fn check(&self) -> Result<(), Error> {
        self.check_member().await
    }

    fn arguments(&self, name: &str, given: Map<String, Value>) -> Result<Map<String, Value>, Error> {
        document::arguments(name, self.conversation, given)
    }

    fn called(&self, tool: &str, arguments: &Map<String, Value>, outcome: &str) {
        let named = ["event_id", "reply_to", "thread"].iter().find_map(|name| arguments.get(*name)?.as_str());
        let about =
            tool_log::About { conversation: Some(self.conversation), event: named.and_then(EventId::parse) };
        self.app.tool_log.note(self.app.environment.uuid_v7(), (self.door, self.who), tool, about, outcome);
    }
}

impl Context {
    /// Whether the caller may be here at all, still.
    pub async fn check_member(&self) -> Result<(), Error> {
        self.read_while_it_holds(|_, _| Ok(())).await
    }

    /// Reads in one snapshot, as a present member.
    pub(crate) async fn read<T, F>(&self, work: F) -> Result<T, Error>
    where
        F: Fn(&mut dyn Tx, (Conversation, Member)) -> Result<T, Error> + Send + 'static,
        T: Send + 'static,
    {
        let (id, who) = (self.conversation, self.who);
        let read = move |tx: &mut dyn Tx| {
            let there = conversation::as_reader(tx, id, who)?;
            work(tx, there)
        };
        self.app.store.read(read).await
    }

    /// The same for what lasts: what the caller showed is looked up again.
    pub(crate) async fn read_while_it_holds<T, F>(&self, work: F) -> Result<T, Error>
    where
        F: Fn(&mut dyn Tx, (Conversation, Member)) -> Result<T, Error> + Send + 'static,
        T: Send + 'static,
    {
        let look_up = self.look_up();
        let read = move |tx: &mut dyn Tx| {
            let there = look_up(tx)?;
            work(tx, there)
        };
        self.app.store.read(read).await
    }

    /// Looks up whether the caller still may be here.
    pub(crate) fn look_up(
        &self,
    ) -> impl Fn(&mut dyn Tx) -> Result<(Conversation, Member), Error> + Send + use<> {
        let (id, who, holds) = (self.conversation, self.who, Arc::clone(&self.holds));
        move |tx| {
            if !holds(tx)? {
                return Err(holds::no_longer_valid());
            }
            Ok(conversation::as_reader(tx, id, who)?)
        }
    }

    /// How many bytes a page of what is listed has at most.
    fn page_bytes(&self) -> u64 {
        self.app.config.quotas.page_bytes.min(PAGE_BYTES)
    }

    /// The key of a call that may come again, if it was given one: these words to this tool.
    fn once(
        &self,
        tool: &str,
        key: Option<&input::IdempotencyKey>,
        words: &impl Serialize,
    ) -> Result<Once, Error> {
        let Some(input::IdempotencyKey(key)) = key else { return Ok(Once::NO_KEY) };
        let (what, words) = (format!("{} {tool}", self.conversation), serde_json::to_vec(words));
        let words = words.map_err(Error::internal)?;
        Ok(Once::new(&self.app, self.door, &self.who, &what, Some(key), &words))
    }
}

/// What calling a tool does to the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    Reads,
    /// Something, but the same again changes nothing.
    Replaces,
    /// Something, each time.
    Adds,
    /// The same, and it may wake others.
    Wakes,
}

type Running = BoxFuture<'static, Result<Value, Error>>;

/// One tool, of a conversation unless said.
pub struct Tool<P = Context> {
    /// With underscores.
    pub name: &'static str,
    /// For people.
    pub title: &'static str,
    /// What a model reads: what the call does, whom it wakes, and what to reuse when it is tried again.
    pub description: &'static str,
    pub effect: Effect,
    /// The JSON Schema of its arguments.
    pub input: Value,
    /// The JSON Schema of its result.
    pub output: Value,
    run: Box<dyn Fn(P, Value, Faults) -> Running + Send + Sync>,
}

impl<P: Place> Tool<P> {
    fn new<I, O, W>(
        (name, title, effect): (&'static str, &'static str, Effect),
        work: impl Fn(P, I) -> W + Copy + Send + Sync + 'static,
        description: &'static str,
    ) -> Self
    where
        I: ToSchema + DeserializeOwned + Send + 'static,
        O: ToSchema + Serialize,
        W: Future<Output = Result<O, Error>> + Send + 'static,
    {
        let run = move |place, arguments, faults| -> Running {
            Box::pin(async move {
                let result = work(place, read(arguments, &faults)?).await?;
                serde_json::to_value(result).map_err(Error::internal)
            })
        };
        let (input, output) = (shown::schema_of::<I>(true), shown::schema_of::<O>(false));
        Self { name, title, description, effect, input, output, run: Box::new(run) }
    }

    /// Calls it under a name of its. What it refuses has a code, and [`sentence`] for a model.
    pub async fn call(&self, place: &P, name: &str, given: Map<String, Value>) -> Result<Value, Error> {
        let (arguments, done) = match place.arguments(name, given) {
            Ok(arguments) => {
                let unknown = self.unknown(&arguments);
                let done = (self.run)(place.clone(), arguments.clone().into(), unknown).await;
                (arguments, done)
            }
            Err(error) => (Map::new(), Err(error)),
        };
        // Arguments are read before anybody is looked up, and who may not be here is not told what is wrong with them.
        if done.as_ref().is_err_and(|error| !error.keeps_out()) {
            place.check().await?;
        }
        let outcome =
            done.as_ref().map_or_else(|error| error.code.short().to_lowercase(), |_| "done".to_owned());
        place.called(self.name, &arguments, &outcome);
        done
    }

    /// Arguments that it does not have.
    fn unknown(&self, arguments: &Map<String, Value>) -> Faults {
        let mut faults = Faults::new();
        let known = |name: &String| self.input["properties"].get(name).is_some();
        for name in arguments.keys().filter(|name| !known(name)) {
            faults.add(name, "there is no such argument");
        }
        faults
    }
}

/// Arguments as a tool takes them, or everything that is wrong with them.
fn read<I: ToSchema + DeserializeOwned + 'static>(arguments: Value, unknown: &Faults) -> Result<I, Error> {
    match schema::read(arguments) {
        Ok(input) if unknown.is_empty() => Ok(input),
        Ok(_) => Err(Error::validation(unknown)),
        Err(faults) if unknown.is_empty() => Err(faults.into()),
        Err(faults) => Err(Error::validation(format_args!("{unknown}; {faults}"))),
    }
}

/// The JSON Schema of what a tool takes that another door calls otherwise.
pub(crate) fn schema_of<T: ToSchema>() -> Value {
    shown::schema_of::<T>(true)
}

/// All tools, always in the same order.
pub fn all() -> &'static [Tool] {
    &table::TOOLS
}

/// The tool of this name. The names of other doors are understood: with dots; and bare, as in the channel protocol's document.
pub fn find(name: &str) -> Option<&'static Tool> {
    let plain = name.replace('.', "_");
    let named = |name: &str| all().iter().find(|tool| tool.name == name);
    named(&plain).or_else(|| named(&format!("chat_{plain}")))
}

/// Why a tool did not do it, for a model: what is wrong, and what to do.
pub fn sentence(error: &Error) -> String {
    let advice = match error.refused {
        Some(Refused::NoMessage) => "; take event_id from chat_list_events",
        Some(Refused::NoHandle) => "; get_roster lists the handles",
        Some(Refused::NoDocument) => "; artifact_list tells what there is",
        Some(Refused::SlugTaken) => ": artifact_edit changes it",
        Some(Refused::Stale) => ": read it with artifact_read, merge, and edit that version",
        Some(
            Refused::NotMember
            | Refused::Policy
            | Refused::ClaimedByOther
            | Refused::OfferedToOther
            | Refused::NotClaimed,
        )
        | None => "",
    };
    let message = &error.message;
    match error.code {
        Code::Validation => format!("nothing was done; mend these arguments: {message}"),
        Code::IdempotencyConflict => {
            "this idempotency_key was used for something else; use a new value for a new request".into()
        }
        _ => format!("{message}{advice}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_definition_is_strict_and_says_whom_it_wakes() {
        let chat = all().iter().map(|tool| (tool.name, tool.description, &tool.input, &tool.output));
        let of_job = of_job().iter().map(|tool| (tool.name, tool.description, &tool.input, &tool.output));
        for (name, description, input, output) in chat.chain(of_job) {
            assert_eq!(input["additionalProperties"], false, "{name}");
            assert!(description.to_lowercase().contains("wakes"), "{name}");
            for schema in [input, output] {
                assert_eq!(schema["type"], "object", "{name}");
                assert!(!schema.to_string().contains("$ref"), "{name}: whole in itself");
                let properties = schema["properties"].as_object().unwrap();
                for required in schema["required"].as_array().unwrap() {
                    assert!(properties.contains_key(required.as_str().unwrap()), "{name} {required}");
                }
            }
            for (member, property) in input["properties"].as_object().unwrap() {
                assert!(property["description"].is_string(), "{name} {member}");
                let bounded = match property["type"].as_str().unwrap() {
                    "string" => {
                        ["maxLength", "pattern", "enum"].iter().any(|bound| !property[bound].is_null())
                    }
                    "integer" => property["maximum"].is_i64(),
                    "array" => property["maxItems"].is_i64(),
                    _ => true,
                };
                assert!(bounded, "{name} {member}");
            }
        }
    }

    #[test]
    fn names_of_other_doors_are_understood() {
        for (name, tool) in [
            ("chat_send_message", Some("chat_send_message")),
            ("chat.send_message", Some("chat_send_message")),
            ("send_message", Some("chat_send_message")),
            ("list_events", Some("chat_list_events")),
            ("chat.list_events", Some("chat_list_events")),
            ("react", Some("chat_react")),
            ("artifact_read", Some("artifact_read")),
            ("artifact.read", Some("artifact_read")),
            ("get_roster", Some("get_roster")),
            ("chat_claim", Some("chat_claim")),
            ("chat.resolve", Some("chat_resolve")),
            ("chat_get_roster", None),
            ("", None),
        ] {
            assert_eq!(find(name).map(|tool| tool.name), tool, "{name}");
        }
    }
}
