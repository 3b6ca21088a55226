//! A model's completion, assembled from the pieces of a stream (the chat completions API of OpenAI and
//! compatible servers).
//!
//! Pure and bounded. A stream that ends without a finish reason is not an answer.

use serde_json::Value;
use std::collections::BTreeMap;

/// The limit of text and arguments of one completion, in bytes.
const MAX_COMPLETION: usize = 256 * 1024;

/// The limit of tool calls in one completion.
const MAX_CALLS: usize = 64;

/// A tool call that the model requests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    /// Supposed to be JSON; not checked here.
    pub(crate) arguments: String,
}

/// The reason why the pieces make no completion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The model's server reported an error within the stream.
    Told(String),
    /// The completion exceeds a limit.
    TooLong,
    /// The server's content filter withheld the completion.
    Withheld,
}

/// A completion in progress.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Completion {
    pub(crate) text: String,
    calls: BTreeMap<u64, Call>,
    /// `true` once the model has given a finish reason.
    pub(crate) finished: bool,
    /// `true` if the model stopped at its length limit.
    pub(crate) cut: bool,
    size: usize,
}

impl Completion {
    /// Adds the data of one event.
    pub(crate) fn push(&mut self, data: &str) -> Result<(), Broken> {
        if data.trim() == "[DONE]" {
            // Some servers never send a finish reason.
            self.finished = true;
            return Ok(());
        }
        // Data that is not JSON is ignored: proxies insert their own lines into streams.
        let Ok(chunk) = serde_json::from_str::<Value>(data) else { return Ok(()) };
        if let Some(error) = error_of(&chunk) {
            return Err(Broken::Told(error));
        }
        let choice = &chunk["choices"][0];
        self.add(&choice["delta"])?;
        self.finished |= choice["finish_reason"].is_string();
        self.end(choice)
    }

    /// Evaluates the finish reason, if there is one.
    fn end(&mut self, choice: &Value) -> Result<(), Broken> {
        match choice["finish_reason"].as_str() {
            Some("content_filter") => Err(Broken::Withheld),
            reason => {
                self.cut |= reason == Some("length");
                Ok(())
            }
        }
    }

    /// Reads a whole completion from a server that does not stream.
    pub(crate) fn whole(body: &Value) -> Result<Self, Broken> {
        if let Some(error) = error_of(body) {
            return Err(Broken::Told(error));
        }
        let mut completion = Self::default();
        completion.add(&body["choices"][0]["message"])?;
        completion.finished = body["choices"][0]["message"].is_object();
        completion.end(&body["choices"][0])?;
        Ok(completion)
    }

    /// Returns the tool calls, in order.
    pub(crate) fn calls(&self) -> impl Iterator<Item = &Call> {
        self.calls.values()
    }

    fn add(&mut self, piece: &Value) -> Result<(), Broken> {
        if let Some(text) = piece["content"].as_str() {
            self.grow(text)?;
            self.text.push_str(text);
        }
        for (n, call) in piece["tool_calls"].as_array().into_iter().flatten().enumerate() {
            let index = call["index"].as_u64().unwrap_or(n as u64);
            let texts = [&call["id"], &call["function"]["name"], &call["function"]["arguments"]];
            let [id, name, arguments] = texts.map(|text| text.as_str().unwrap_or_default());
            for text in [id, name, arguments] {
                self.grow(text)?;
            }
            let known = self.calls.entry(index).or_default();
            // Some servers repeat the id and the name in every piece.
            if known.id.is_empty() {
                id.clone_into(&mut known.id);
            }
            if known.name.is_empty() {
                name.clone_into(&mut known.name);
            }
            known.arguments.push_str(arguments);
        }
        if self.calls.len() > MAX_CALLS { Err(Broken::TooLong) } else { Ok(()) }
    }

    fn grow(&mut self, text: &str) -> Result<(), Broken> {
        self.size += text.len();
        if self.size > MAX_COMPLETION { Err(Broken::TooLong) } else { Ok(()) }
    }
}

/// Returns the error message in a server's response, if there is one.
pub(crate) fn error_of(body: &Value) -> Option<String> {
    let error = body.get("error").filter(|error| !error.is_null())?;
    let text = error["message"].as_str().or(error.as_str()).unwrap_or("an error without a reason");
    Some(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn delta(delta: &Value) -> String {
        json!({"choices": [{"index": 0, "delta": delta}]}).to_string()
    }

    #[test]
    fn text_and_calls_in_pieces() {
        let mut said = Completion::default();
        for piece in [json!({"role": "assistant", "content": "Hel"}), json!({"content": "lo"}), json!({})] {
            said.push(&delta(&piece)).unwrap();
        }
        let call = |index: u64, function: Value| {
            delta(&json!({"tool_calls": [{"index": index, "id": format!("c{index}"), "function": function}]}))
        };
        said.push(&call(1, json!({"name": "b", "arguments": "{}"}))).unwrap();
        said.push(&call(0, json!({"name": "a", "arguments": "{\"x\""}))).unwrap();
        said.push(&call(0, json!({"arguments": ":1}"}))).unwrap();
        said.push(": not json").unwrap();
        assert!(!said.finished);
        said.push(&json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}).to_string()).unwrap();
        assert!(said.finished && said.text == "Hello");
        let calls: Vec<_> = said.calls().map(|call| (&*call.id, &*call.name, &*call.arguments)).collect();
        assert_eq!(calls, [("c0", "a", r#"{"x":1}"#), ("c1", "b", "{}")]);
    }

    #[test]
    fn ends() {
        let mut said = Completion::default();
        said.push("[DONE]").unwrap();
        assert!(said.finished);
        let mut said = Completion::default();
        let error = json!({"error": {"message": "overloaded"}}).to_string();
        assert_eq!(said.push(&error), Err(Broken::Told("overloaded".into())));
        let mut said = Completion::default();
        let piece = delta(&json!({"content": "x".repeat(64 * 1024)}));
        let results: Vec<_> = (0..5).map(|_| said.push(&piece).is_ok()).collect();
        assert_eq!(results, [true, true, true, true, false]);
    }

    #[test]
    fn why_it_stopped() {
        for (reason, expected) in
            [("stop", Ok(false)), ("length", Ok(true)), ("content_filter", Err(Broken::Withheld))]
        {
            let mut said = Completion::default();
            let last = json!({"choices": [{"delta": {}, "finish_reason": reason}]}).to_string();
            assert_eq!(said.push(&last).map(|()| said.cut), expected, "{reason}");
            let whole = json!({"choices": [{"message": {"content": "x"}, "finish_reason": reason}]});
            assert_eq!(Completion::whole(&whole).map(|said| said.cut), expected, "{reason}");
        }
    }

    #[test]
    fn a_server_that_does_not_stream() {
        let body = json!({"choices": [{"message": {"content": null, "tool_calls": [
            {"id": "a", "function": {"name": "t", "arguments": "{}"}},
            {"id": "b", "function": {"name": "u", "arguments": "{}"}}]}}]});
        let said = Completion::whole(&body).unwrap();
        assert_eq!(said.calls().map(|call| call.name.as_str()).collect::<Vec<_>>(), ["t", "u"]);
        assert!(!Completion::whole(&json!({})).unwrap().finished);
    }
}
