//! Tools in MCP: listing and calling them.

use super::words::{Failure, failure, log, text};
use chorus_app::tools::{self, Effect, Place, Tool};
use chorus_protocol::rpc::RpcError;
use serde_json::{Map, Value, json};

/// Returns the result of `tools/list`.
pub(super) fn listed<P>(tools: &[Tool<P>]) -> Value {
    json!({"tools": tools.iter().map(one).collect::<Vec<_>>()})
}

fn one<P>(tool: &Tool<P>) -> Value {
    json!({
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": tool.input,
        "outputSchema": tool.output,
        "annotations": {
            "title": tool.title,
            "readOnlyHint": tool.effect == Effect::Reads,
            // No tool overwrites anything: the log is append-only, and documents keep their versions.
            "destructiveHint": false,
            "idempotentHint": matches!(tool.effect, Effect::Reads | Effect::Replaces),
            "openWorldHint": tool.effect == Effect::Wakes,
        },
    })
}

/// Returns the arguments of a call.
pub(super) fn arguments(params: &Map<String, Value>) -> Result<Map<String, Value>, RpcError> {
    match params.get("arguments") {
        None => Ok(Map::new()),
        Some(Value::Object(arguments)) => Ok(arguments.clone()),
        Some(_) => Err(RpcError::params("arguments: must be an object")),
    }
}

/// Calls a tool. The tool checks its caller itself; for an unknown tool the check is done here.
pub(super) async fn call<P: Place>(
    place: &P,
    find: impl Fn(&str) -> Option<&'static Tool<P>>,
    params: &Map<String, Value>,
) -> Result<Value, Failure> {
    let called = text(params, "name").and_then(|name| {
        let unknown = || RpcError::params(format_args!("there is no tool {name:?}; tools/list tells them"));
        Ok((name, find(name).ok_or_else(unknown)?, arguments(params)?))
    });
    let (name, tool, arguments) = match called {
        Ok(called) => called,
        Err(error) => {
            place.check().await.map_err(failure)?;
            return Err(error.into());
        }
    };
    match tool.call(place, name, arguments).await {
        Ok(result) => Ok(Value::Object(Map::from_iter([
            ("content".to_owned(), json!([{"type": "text", "text": result.to_string()}])),
            ("structuredContent".to_owned(), result),
            ("isError".to_owned(), false.into()),
        ]))),
        Err(error) if P::keeps_out(&error) => Err(failure(error)),
        Err(error) => {
            log(&error);
            let (said, refusal) = tools::refusal(name, &error).map_err(failure)?;
            let content = json!([{"type": "text", "text": said}]);
            Ok(json!({"content": content, "structuredContent": refusal, "isError": true}))
        }
    }
}
