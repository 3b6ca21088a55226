//! The place in which tools are called, as far as a tool must know it.

use chorus_node::Error;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

/// A running call.
pub type Running = BoxFuture<'static, Result<Value, Error>>;

/// The place of a tool call, with its caller.
pub trait Place: Clone + Send + Sync + 'static {
    /// Checks that the caller has access to this place.
    fn check(&self) -> impl Future<Output = Result<(), Error>> + Send;

    /// Runs a call under a name of another protocol. Returns `None` for other names.
    fn in_its_words(&self, _name: &str, _given: &Map<String, Value>) -> Option<Running> {
        None
    }

    /// Returns `true` if an error of a tool means that the caller has no access to this place. The caller then
    /// learns nothing else.
    fn keeps_out(error: &Error) -> bool {
        error.keeps_out()
    }

    /// Records a tool call and its outcome.
    fn called(&self, _tool: &str, _arguments: &Map<String, Value>, _outcome: &str) {}
}
