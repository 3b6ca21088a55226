//! One tool: what a model reads of it, what goes in and out, and how it is called.

use super::context::Context;
use super::document;
use super::place::{Place, Running};
use crate::c2a;
use crate::error::Error;
use crate::tool_schema::{schema_of, schema_of_answer};
use chorus_protocol::faults::Faults;
use chorus_protocol::schema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use utoipa::ToSchema;

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
    /// The JSON Schema of its result, or of a refusal.
    pub output: Value,
    run: Box<dyn Fn(P, Value, Faults) -> Running + Send + Sync>,
}

impl<P: Place> Tool<P> {
    pub(super) fn new<I, O, W>(
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
        let (input, output) = (schema_of::<I>(true), schema_of_answer::<O>());
        Self { name, title, description, effect, input, output, run: Box::new(run) }
    }

    /// Calls it under a name of its. What it refuses has a code, and [`sentence`](super::sentence) for a model.
    pub async fn call(&self, place: &P, name: &str, given: Map<String, Value>) -> Result<Value, Error> {
        let done = if let Some(done) = place.in_its_words(name, &given) {
            done.await
        } else {
            let given = document::respelled(name, given.clone());
            let unknown = self.unknown(&given);
            (self.run)(place.clone(), given.into(), unknown).await
        };
        // Arguments are read before anybody is looked up, and who may not be here is not told what is wrong with them.
        if done.as_ref().is_err_and(|error| !error.keeps_out()) {
            place.check().await?;
        }
        let outcome = done.as_ref().map_or_else(|error| c2a::code(error).as_str(), |_| "done");
        place.called(self.name, &given, outcome);
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
