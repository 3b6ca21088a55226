//! Caches the input schemas of skills, as of the last read.
//!
//! An entry is a guess that saves a read: an input that matches it is not checked again before the write, and
//! the write verifies that the agent still declares this schema. A guess never causes a refusal.

use chorus_protocol::ids::AgentId;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Cached skills. When there are more, the cache is cleared.
const MOST: usize = 2000;
/// Bytes of the longest schema that is cached.
const LONGEST: usize = 4096;

/// The input schema of a skill. `None` accepts anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Takes(pub Option<String>);

/// By agent and skill.
#[derive(Default)]
pub struct Schemas(Mutex<HashMap<(AgentId, String), Takes>>);

impl Schemas {
    fn known(&self) -> MutexGuard<'_, HashMap<(AgentId, String), Takes>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn find(&self, agent: AgentId, skill: &str) -> Option<Takes> {
        self.known().get(&(agent, skill.to_owned())).cloned()
    }

    pub fn remember(&self, agent: AgentId, skill: &str, schema: Option<&str>) {
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
