//! A tool: its description for models, its schemas and its function.

use super::context::Context;
use super::document;
use super::place::{Place, Running};
use crate::c2a;
use crate::tool_schema::{schema_of, schema_of_answer};
use chorus_node::Error;
use chorus_protocol::faults::Faults;
use chorus_protocol::schema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::borrow::Cow;
use utoipa::ToSchema;

/// The effect of a tool on the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Changes nothing in the conversation.
    Reads,
    /// Changes something, but repeating the call changes nothing more.
    Replaces,
    /// Adds something with each call.
    Adds,
    /// Adds something with each call, and may wake others.
    Wakes,
}

/// A tool, of a conversation by default.
pub struct Tool<P = Context> {
    /// The name, with underscores instead of dots.
    pub name: &'static str,
    /// The title that clients show to people.
    pub title: &'static str,
    /// The description for models: the effect of the call, the members it wakes, and the key to reuse in a
    /// retry.
    pub description: Cow<'static, str>,
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
        description: impl Into<Cow<'static, str>>,
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
        Self { name, title, description: description.into(), effect, input, output, run: Box::new(run) }
    }

    /// Calls the tool under one of its names. An error has a code, and [`sentence`](super::sentence) explains
    /// it to a model.
    pub async fn call(&self, place: &P, name: &str, given: Map<String, Value>) -> Result<Value, Error> {
        let done = if let Some(done) = place.in_its_words(name, &given) {
            done.await
        } else {
            let given = document::respelled(name, given.clone());
            let unknown = self.unknown(&given);
            (self.run)(place.clone(), given.into(), unknown).await
        };
        // Arguments are parsed before the caller is looked up. A caller without access does not learn the
        // faults in them.
        if done.as_ref().is_err_and(|error| !P::keeps_out(error)) {
            place.check().await?;
        }
        let outcome = done.as_ref().map_or_else(|error| c2a::code(error).as_str(), |_| "done");
        place.called(self.name, &given, outcome);
        done
    }

    /// Returns this tool of one place as a tool of another, with more arguments. `enter` removes them, and
    /// returns the place in which the tool runs.
    pub(super) fn within<Q: Place>(
        &'static self,
        more: Map<String, Value>,
        enter: impl Fn(&Q, &mut Map<String, Value>) -> Result<P, Error> + Send + Sync + Copy + 'static,
        description: String,
    ) -> Tool<Q> {
        let mut input = self.input.clone();
        if let Some(Value::Array(required)) = input.get_mut("required") {
            required.extend(more.keys().map(|name| name.as_str().into()));
        }
        if let Some(Value::Object(properties)) = input.get_mut("properties") {
            properties.extend(more);
        }
        let run = move |place: Q, mut arguments: Value, faults: Faults| -> Running {
            let mut none = Map::new();
            match enter(&place, arguments.as_object_mut().unwrap_or(&mut none)) {
                Ok(inner) => (self.run)(inner, arguments, faults),
                Err(error) => Box::pin(std::future::ready(Err(error))),
            }
        };
        Tool {
            name: self.name,
            title: self.title,
            description: description.into(),
            effect: self.effect,
            input,
            output: self.output.clone(),
            run: Box::new(run),
        }
    }

    /// Returns a fault for each argument that the tool does not have.
    fn unknown(&self, arguments: &Map<String, Value>) -> Faults {
        let mut faults = Faults::new();
        let known = |name: &String| self.input["properties"].get(name).is_some();
        for name in arguments.keys().filter(|name| !known(name)) {
            faults.add(name, "there is no such argument");
        }
        faults
    }
}

/// Parses the arguments, or returns all faults in them.
fn read<I: ToSchema + DeserializeOwned + 'static>(arguments: Value, unknown: &Faults) -> Result<I, Error> {
    match schema::read(arguments) {
        Ok(input) if unknown.is_empty() => Ok(input),
        Ok(_) => Err(Error::validation(unknown)),
        Err(faults) if unknown.is_empty() => Err(faults.into()),
        Err(faults) => Err(Error::validation(format_args!("{unknown}; {faults}"))),
    }
}
