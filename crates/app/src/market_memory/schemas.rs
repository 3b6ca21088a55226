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

/// What a skill takes: what fits this schema, or anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Takes(pub(crate) Option<String>);

/// By agent and skill.
#[derive(Default)]
pub(crate) struct Schemas(Mutex<HashMap<(AgentId, String), Takes>>);

impl Schemas {
    fn known(&self) -> MutexGuard<'_, HashMap<(AgentId, String), Takes>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn find(&self, agent: AgentId, skill: &str) -> Option<Takes> {
        self.known().get(&(agent, skill.to_owned())).cloned()
    }

    pub(crate) fn remember(&self, agent: AgentId, skill: &str, schema: Option<&str>) {
        let mut known = self.known();
        if schema.is_some_and(|schema| schema.len() > LONGEST) {
            known.remove(&(agent, skill.to_owned()));
            return;
        }
        if known.len() >= MOST {
            known.clear();
        }
        known.insert((agent, skill.to_owned()), Takes(schema.map(str::to_owned)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_remembered_than_fits() {
        let (schemas, agent) = (Schemas::default(), AgentId(uuid::Uuid::from_u128(7)));
        schemas.remember(agent, "sum", Some("{}"));
        assert_eq!(schemas.find(agent, "sum"), Some(Takes(Some("{}".to_owned()))));
        assert_eq!(schemas.find(agent, "other"), None);
        schemas.remember(agent, "sum", Some(&"x".repeat(LONGEST + 1)));
        assert_eq!(schemas.find(agent, "sum"), None, "neither the old one nor the new one");
        for n in 0..2 * MOST {
            schemas.remember(agent, &n.to_string(), None);
            assert!(schemas.known().len() <= MOST);
        }
    }
}
