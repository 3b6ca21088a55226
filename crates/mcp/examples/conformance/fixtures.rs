//! The tools, prompts and resources that the conformance suite expects.

use chorus_mcp::{Ask, Revision, code};
use chorus_protocol::rpc::RpcError;
use serde_json::{Value, json};

/// A WAV file without samples, in base64.
pub(crate) const SOUND: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=";
/// A PNG image of one red pixel, in base64.
pub(crate) const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";

pub(crate) fn text(text: impl Into<String>) -> Value {
    json!({"content": [{"type": "text", "text": text.into()}]})
}

pub(crate) fn argument(ask: &Ask, name: &str) -> String {
    member(ask, "arguments", name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Returns a member of a parameter, if present.
pub(crate) fn member<'a>(ask: &'a Ask, of: &str, name: &str) -> Option<&'a Value> {
    ask.params.get(of)?.get(name)
}

pub(crate) fn tools() -> Value {
    let none = json!({"type": "object", "properties": {}, "additionalProperties": false});
    let one =
        |name: &str| json!({"type": "object", "properties": {name: {"type": "string"}}, "required": [name]});
    let mut tools: Vec<_> = PLAIN
        .iter()
        .map(|(name, description)| json!({"name": name, "description": description, "inputSchema": none}))
        .collect();
    tools.push(json!({"name": "test_sampling", "description": "Asks a model", "inputSchema": one("prompt")}));
    tools.push(
        json!({"name": "test_elicitation", "description": "Asks the user", "inputSchema": one("message")}),
    );
    tools.push(json!({"name": "json_schema_2020_12_tool", "description": "Has a rich schema", "inputSchema": rich_schema()}));
    json!({"tools": tools})
}

pub(crate) fn rich_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    })
}

pub(crate) fn prompts() -> Value {
    let wanted = |name: &str| json!({"name": name, "description": "For testing", "required": true});
    json!({"prompts": [
        {"name": "test_simple_prompt", "description": "Without arguments"},
        {"name": "test_prompt_with_arguments", "description": "With two arguments", "arguments": [wanted("arg1"), wanted("arg2")]},
        {"name": "test_prompt_with_embedded_resource", "description": "With a resource", "arguments": [wanted("resourceUri")]},
        {"name": "test_prompt_with_image", "description": "With an image"},
        {"name": "test_input_required_result_prompt", "description": "Asks for a context"},
    ]})
}

pub(crate) fn prompt(ask: &Ask) -> Result<Value, RpcError> {
    let user = |content: Value| json!({"role": "user", "content": content});
    let said = |text: &str| json!({"type": "text", "text": text});
    let messages = match ask.params.get("name").and_then(Value::as_str).unwrap_or_default() {
        "test_simple_prompt" => vec![user(said("This is a simple prompt for testing."))],
        "test_prompt_with_arguments" => {
            let (one, two) = (argument(ask, "arg1"), argument(ask, "arg2"));
            vec![user(said(&format!("Prompt with arguments: arg1='{one}', arg2='{two}'")))]
        }
        "test_prompt_with_embedded_resource" => vec![
            user(json!({"type": "resource", "resource": {
                "uri": argument(ask, "resourceUri"), "mimeType": "text/plain", "text": "Embedded resource content for testing.",
            }})),
            user(said("Please process the embedded resource above.")),
        ],
        "test_prompt_with_image" => vec![
            user(json!({"type": "image", "data": PIXEL, "mimeType": "image/png"})),
            user(said("Please analyze the image above.")),
        ],
        "test_input_required_result_prompt" => {
            let question = elicit(
                "What context should the prompt use?",
                json!({"context": {"type": "string"}}),
                &["context"],
            );
            let asked = input_required(ask, json!({"user_context": question}), None, "")?;
            if asked.get("resultType").is_some() {
                return Ok(asked);
            }
            vec![user(said("A prompt with a context."))]
        }
        name => return Err(RpcError::params(format!("there is no prompt {name:?}"))),
    };
    Ok(json!({"messages": messages}))
}

pub(crate) fn resource(ask: &Ask) -> Result<Value, RpcError> {
    let uri = ask.params.get("uri").and_then(Value::as_str).unwrap_or_default();
    let id = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
    let content = match (uri, id) {
        ("test://static-text", _) => {
            json!({"uri": uri, "mimeType": "text/plain", "text": "This is the content of the static text resource."})
        }
        ("test://static-binary", _) => json!({"uri": uri, "mimeType": "image/png", "blob": PIXEL}),
        ("test://watched-resource", _) => json!({"uri": uri, "mimeType": "text/plain", "text": "Watched."}),
        (_, Some(id)) => {
            let data = json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
            json!({"uri": uri, "mimeType": "application/json", "text": data.to_string()})
        }
        _ => {
            let code = match ask.revision {
                Revision::Stateless => RpcError::INVALID_PARAMS,
                Revision::WithSessions => code::RESOURCE_NOT_FOUND,
            };
            return Err(RpcError::new(code, "Resource not found").with(json!({"uri": uri})));
        }
    };
    Ok(json!({"contents": [content]}))
}

pub(crate) fn resources() -> Value {
    let listed = |uri: &str, kind: &str| json!({"uri": uri, "name": uri, "description": "For testing", "mimeType": kind});
    json!({"resources": [
        listed("test://static-text", "text/plain"),
        listed("test://static-binary", "image/png"),
        listed("test://watched-resource", "text/plain"),
    ]})
}

pub(crate) fn defaults() -> Value {
    json!({
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": true},
    })
}

pub(crate) fn choices() -> Value {
    let titled = |names: [&str; 3]| -> Vec<Value> {
        names
            .iter()
            .enumerate()
            .map(|(n, title)| json!({"const": format!("value{}", n + 1), "title": title}))
            .collect()
    };
    json!({
        "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
        "titledSingle": {"type": "string", "oneOf": titled(["First Option", "Second Option", "Third Option"])},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["Option One", "Option Two", "Option Three"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled(["First Choice", "Second Choice", "Third Choice"])}},
    })
}

pub(crate) fn elicit(message: &str, properties: Value, required: &[&str]) -> Value {
    let schema = json!({"type": "object", "properties": properties, "required": required});
    json!({"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema": schema}})
}

/// Returns a result that requests these inputs until all of them are answered.
pub(crate) fn input_required(
    ask: &Ask,
    wanted: Value,
    state: Option<&str>,
    done: &str,
) -> Result<Value, RpcError> {
    if let (Some(state), Some(given)) = (state, ask.params.get("requestState"))
        && given != state
    {
        return Err(RpcError::params("requestState: was not given out by this server"));
    }
    let given = ask.params.get("inputResponses");
    let answered = |name: &String| given.is_some_and(|given| given[name].is_object());
    if wanted.as_object().is_some_and(|wanted| wanted.keys().all(answered)) {
        return Ok(text(done));
    }
    let mut result = json!({"resultType": "input_required", "inputRequests": wanted});
    if let Some(state) = state {
        result["requestState"] = json!(state);
    }
    Ok(result)
}

pub(crate) fn sample(prompt: &str) -> Value {
    let message = json!({"role": "user", "content": {"type": "text", "text": prompt}});
    json!({"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": 100}})
}

const PLAIN: [(&str, &str); 24] = [
    ("test_simple_text", "Returns a text"),
    ("test_image_content", "Returns an image"),
    ("test_audio_content", "Returns a sound"),
    ("test_embedded_resource", "Returns a resource"),
    ("test_multiple_content_types", "Returns a text, an image and a resource"),
    ("test_tool_with_logging", "Logs while it works"),
    ("test_logging_tool", "Logs if it is asked to"),
    ("test_tool_with_progress", "Reports progress"),
    ("test_error_handling", "Always fails"),
    ("test_elicitation_sep1034_defaults", "Asks with defaults"),
    ("test_elicitation_sep1330_enums", "Asks with choices"),
    ("test_missing_capability", "Needs sampling"),
    ("test_streaming_elicitation", "Asks in its result"),
    ("test_trigger_tool_change", "Says that the tools changed"),
    ("test_trigger_prompt_change", "Says that the prompts changed"),
    ("test_input_required_result_elicitation", "Asks for a name"),
    ("test_input_required_result_sampling", "Asks a model"),
    ("test_input_required_result_list_roots", "Asks for roots"),
    ("test_input_required_result_request_state", "Asks with a state"),
    ("test_input_required_result_multiple_inputs", "Asks several things"),
    ("test_input_required_result_multi_round", "Asks twice"),
    ("test_input_required_result_tampered_state", "Asks with a state it checks"),
    ("test_input_required_result_capabilities", "Asks what the client can answer"),
    ("test_reconnection", "Works for a while"),
];
