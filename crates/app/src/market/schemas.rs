//! What agents declared that their skills take, as it was when somebody last looked.
//!
//! A guess that saves a look: an input that fits it is held against nothing else before it is written, and whoever writes finds out
//! whether it is still what the agent declares. It refuses nobody.

use chorus_protocol::ids::AgentId;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// So many skills are remembered; when there are more, all are forgotten.
const MOST: usize = 2000;
/// What is longer is not remembered.
const LONGEST: usize = 4096;

/// By agent and skill: the schema, if there is one.
#[derive(Default)]
pub(super) struct Schemas(Mutex<HashMap<(AgentId, String), Option<String>>>);

impl Schemas {
    fn known(&self) -> MutexGuard<'_, HashMap<(AgentId, String), Option<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn find(&self, agent: AgentId, skill: &str) -> Option<Option<String>> {
        self.known().get(&(agent, skill.to_owned())).cloned()
    }

    pub(super) fn remember(&self, agent: AgentId, skill: &str, schema: Option<&str>) {
        let mut known = self.known();
        if schema.is_some_and(|schema| schema.len() > LONGEST) {
            known.remove(&(agent, skill.to_owned()));
            return;
        }
        if known.len() >= MOST {
            known.clear();
        }
        known.insert((agent, skill.to_owned()), schema.map(str::to_owned));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_remembered_than_fits() {
        let (schemas, agent) = (Schemas::default(), AgentId(uuid::Uuid::from_u128(7)));
        schemas.remember(agent, "sum", Some("{}"));
        assert_eq!(schemas.find(agent, "sum"), Some(Some("{}".to_owned())));
        assert_eq!(schemas.find(agent, "other"), None);
        schemas.remember(agent, "sum", Some(&"x".repeat(LONGEST + 1)));
        assert_eq!(schemas.find(agent, "sum"), None, "neither the old one nor the new one");
        for n in 0..2 * MOST {
            schemas.remember(agent, &n.to_string(), None);
            assert!(schemas.known().len() <= MOST);
        }
    }
}
