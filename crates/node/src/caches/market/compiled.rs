//! Caches compiled schemas by the hash of their text, so that a schema is compiled once and not for each job.
//!
//! It holds two generations. A schema that is used moves to the young one; when that is full, it becomes the old one and the former
//! old one is dropped. So what is used stays, and memory is bounded by the weights of both.

use chorus_market::schema::Schema;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The bytes of one generation.
const GENERATION_BYTES: usize = 8 << 20;

type TextHash = [u8; 32];

/// A cache of compiled schemas. See the [module](self).
#[derive(Default)]
pub struct CompiledSchemas(Mutex<Generations>);

#[derive(Default)]
struct Generations {
    young: HashMap<TextHash, Arc<Schema>>,
    old: HashMap<TextHash, Arc<Schema>>,
    young_bytes: usize,
}

impl CompiledSchemas {
    fn generations(&self) -> MutexGuard<'_, Generations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The schema of this text, if it was compiled lately.
    pub fn find(&self, text: &str) -> Option<Arc<Schema>> {
        let hash = Sha256::digest(text.as_bytes()).into();
        let mut generations = self.generations();
        if let Some(known) = generations.young.get(&hash) {
            return Some(Arc::clone(known));
        }
        let known = generations.old.remove(&hash)?;
        generations.insert(hash, text, &known);
        Some(known)
    }

    pub fn remember(&self, text: &str, schema: &Arc<Schema>) {
        self.generations().insert(Sha256::digest(text.as_bytes()).into(), text, schema);
    }
}

impl Generations {
    fn insert(&mut self, hash: TextHash, text: &str, schema: &Arc<Schema>) {
        let weight = Schema::weight(text);
        if self.young_bytes + weight > GENERATION_BYTES {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        if self.young.insert(hash, Arc::clone(schema)).is_none() {
            self.young_bytes += weight;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chorus_market::schema::STEPS_OF_CHECK;
    use chorus_protocol::schema::StepBudget;

    #[test]
    fn what_is_used_stays_and_memory_is_bounded() {
        let (schemas, often) = (CompiledSchemas::default(), r#"{"often":"string"}"#);
        let compile = |text: &str| {
            let schema = Schema::compile(text, "input_data", &mut StepBudget::new(STEPS_OF_CHECK));
            schemas.remember(text, &Arc::new(schema.unwrap()));
        };
        assert!(schemas.find(often).is_none());
        compile(often);
        let filler = "x".repeat(8000);
        for n in 0..500 {
            let seldom = format!(r#"{{"{filler}{n}":"string"}}"#);
            compile(&seldom);
            assert!(schemas.find(&seldom).is_some() && schemas.find(often).is_some(), "{n}");
            let generations = schemas.generations();
            assert!(generations.young_bytes <= GENERATION_BYTES);
            assert!(generations.young.len() + generations.old.len() < 150);
        }
        assert!(schemas.find(&format!(r#"{{"{filler}0":"string"}}"#)).is_none());
    }
}
