//! Where tools are called: what a tool must know of that.

use crate::error::Error;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

/// A call on its way.
pub type Running = BoxFuture<'static, Result<Value, Error>>;

/// Where a tool is called, and by whom.
pub trait Place: Clone + Send + Sync + 'static {
    /// Whether the caller has any business here at all; whoever has none is kept out.
    fn check(&self) -> impl Future<Output = Result<(), Error>> + Send;

    /// What a call under this name is answered with that is another protocol's, if it is.
    fn in_its_words(&self, _name: &str, _given: &Map<String, Value>) -> Option<Running> {
        None
    }

    /// A tool was called here, and what came of it.
    fn called(&self, _tool: &str, _arguments: &Map<String, Value>, _outcome: &str) {}
}
