//! The chat tools: acts of a model in a conversation, one table for every door that shows tools to models.
//!
//! A tool has a name, a description for models, schemas of its arguments and its result, and a function. Tools
//! that write call the same acts as `/api/v1`. Tools that read return pages in a form of their own, from the
//! same store functions. The arguments are one struct, from which they are checked, parsed and described. Only
//! a present member gets an answer: acts check that in their own transaction, and before any other refusal the
//! caller is looked up.
//!
//! Doors choose how tools are called and shown; nothing here knows a protocol. The door authenticates the
//! caller. A long call (a wait) checks the credential again.

mod agent;
mod context;
mod document;
mod documents;
mod holds;
mod in_conversation;
mod input;
mod output;
mod place;
mod reading;
mod reporting;
mod speaking;
mod table;
mod taking_on;
mod teaching;
mod tool;
mod waiting;

pub use agent::{AgentContext, about_agent, find_of_agent, of_agent};
pub use context::Context;
pub use documents::{document_slug, document_uri};
pub use holds::{Holds, key_holds, token_holds};
pub use place::{Place, Running};
pub use reporting::{Hired, about as about_job, of_job};
pub use teaching::{instructions, participate};
pub use tool::{Effect, Tool};

use crate::c2a;
use chorus_node::{Error, Refused};
use chorus_protocol::c2a::{ChatTool, Spelling, to_snake};
use chorus_protocol::code::Code;
use serde_json::Value;

/// Returns all tools, always in the same order.
pub fn all() -> &'static [Tool] {
    &table::TOOLS
}

/// Returns the tool with this name. Names of other doors are accepted: with dots, and bare as in the channel
/// protocol's document.
pub fn find(name: &str) -> Option<&'static Tool> {
    let plain = name.replace('.', "_");
    let named = |name: &str| all().iter().find(|tool| tool.name == name);
    named(&plain).or_else(|| named(&format!("chat_{plain}")))
}

/// Renders an error of a tool as a sentence for a model and as JSON for a program, in the spelling of the
/// called name.
pub fn refusal(name: &str, error: &Error) -> Result<(String, Value), Error> {
    let is_documented = matches!(ChatTool::named(name), Some((_, Spelling::Camel)));
    let said = if is_documented { c2a::in_own_words(error) } else { sentence(error) };
    let refusal = serde_json::to_value(c2a::refusal(error, said.clone())).map_err(Error::internal)?;
    Ok((said, if is_documented { refusal } else { to_snake(refusal) }))
}

/// Explains an error of a tool to a model: the fault, then the remedy.
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
            | Refused::NotClaimed
            | Refused::Superseded
            | Refused::Archived
            | Refused::Blocked,
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
        fn parts<P>(tool: &Tool<P>) -> (&str, &str, &Value, &Value) {
            (tool.name, &tool.description, &tool.input, &tool.output)
        }
        let chat = all().iter().map(parts).chain(of_job().iter().map(parts));
        for (name, description, input, output) in chat.chain(of_agent().iter().map(parts)) {
            assert_eq!(input["additionalProperties"], false, "{name}");
            assert!(description.to_lowercase().contains("wakes"), "{name}");
            assert_eq!(output["type"], "object", "{name}");
            let [result, refusal] = &**output["anyOf"].as_array().unwrap() else {
                panic!("{name}: {output}")
            };
            assert_eq!(refusal["required"], serde_json::json!(["code", "message"]), "{name}");
            for schema in [input, result, refusal] {
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

    /// Checks that C2A's tools have the same effects here.
    #[test]
    fn the_chat_tools_do_here_what_they_do_over_c2a() {
        for tool in ChatTool::ALL {
            let effect = find(tool.as_str()).unwrap().effect;
            let reads = matches!(tool, ChatTool::ListEvents | ChatTool::ReadThread);
            assert_eq!(effect == Effect::Reads, reads, "{tool}");
            assert!(reads || effect == Effect::Replaces || *tool == ChatTool::SendMessage, "{tool}");
        }
    }

    #[test]
    fn a_refusal_is_in_the_words_of_the_name_that_was_called() {
        let error = Error::new(Code::PolicyForbidden, "it was changed")
            .refused(Refused::Superseded)
            .details(serde_json::json!({"newest": "evt_1"}))
            .retry_after_ms(7);
        for (name, newest, later) in [
            ("chat_send_message", "newest_event_id", "retry_after_ms"),
            ("send_message", "newest_event_id", "retry_after_ms"),
            ("chat.send_message", "newestEventId", "retryAfterMs"),
        ] {
            let (said, refusal) = refusal(name, &error).unwrap();
            let wanted =
                serde_json::json!({"code": "superseded", "message": said, newest: "evt_1", later: 7});
            assert_eq!(refusal, wanted, "{name}");
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
