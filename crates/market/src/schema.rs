//! Validation of data against a skill's schema, in both forms: member names with types, and a subset of JSON
//! Schema.
//!
//! A schema with `$schema`, `properties` or `type: "object"` is a JSON Schema; in any other each member names
//! a type. Unsupported keywords are rejected at registration, so that nobody relies on a check that is not
//! made. Schema and data come from different strangers, so compiling and checking are counted in steps of a
//! [`StepBudget`] and end when it is used up. Both forms compile to the schema that the bodies of the protocols
//! are checked with.

mod json_schema;
mod simple;

use chorus_protocol::faults::Faults;
use chorus_protocol::schema::{SchemaCheck, SchemaNode, StepBudget};
use serde_json::Value;

/// The maximum nesting depth of a schema.
const MAX_DEPTH: usize = 16;
/// The memory of a compiled schema per byte of its text. For example, a list of digits becomes a list of
/// values.
const BYTES_PER_SIGN: usize = 16;
/// The maximum size of a schema as JSON, in bytes.
pub const MAX_BYTES: usize = 16 * 1024;

/// The steps of one check.
pub const STEPS_OF_CHECK: usize = 2_000_000;
/// The steps for compiling one pattern.
const STEPS_OF_PATTERN: usize = 20_000;

/// A compiled schema, from either form.
#[derive(Debug)]
pub struct Schema(SchemaNode);

impl Schema {
    /// Compiles the declared schema at `path` and adds its faults.
    pub fn read(declared: &Value, path: &str, faults: &mut Faults) -> Option<Self> {
        let Value::Object(members) = declared else {
            faults.add(path, "must be an object");
            return None;
        };
        if declared.to_string().len() > MAX_BYTES {
            faults.add(path, format_args!("must have at most {MAX_BYTES} bytes"));
            return None;
        }
        let is_json_schema = members.contains_key("$schema")
            || members.get("properties").is_some_and(Value::is_object)
            || members.get("type").is_some_and(|name| name == "object");
        let compiled = if is_json_schema {
            json_schema::read(declared, path, faults)
        } else {
            simple::read(members, path, faults)
        };
        compiled.map(Self)
    }

    /// Compiles the text of a schema that was accepted at registration. `path` locates the data to check,
    /// which cannot be checked if the budget is too small.
    pub fn compile(text: &str, path: &str, steps: &mut StepBudget) -> Result<Self, Faults> {
        if !steps.spend(text.len() + Self::count_patterns(text) * STEPS_OF_PATTERN) {
            return Err(too_many_steps(path));
        }
        let mut faults = Faults::new();
        let declared = serde_json::from_str(text)
            .map_err(|_| Faults::one(path, "cannot be checked: the skill declares no readable schema"))?;
        match Self::read(&declared, "schema", &mut faults) {
            Some(schema) if faults.is_empty() => Ok(schema),
            _ => Err(faults),
        }
    }

    /// Counts the patterns in a schema's text. The result may be too high, never too low.
    pub fn count_patterns(text: &str) -> usize {
        text.matches("\"pattern\"").count()
    }

    /// Estimates the memory, in bytes, of a schema compiled from this text.
    pub fn weight(text: &str) -> usize {
        let patterns = Self::count_patterns(text) * json_schema::PATTERN_BYTES;
        size_of::<SchemaNode>() + text.len() * BYTES_PER_SIGN + patterns
    }

    /// Checks `data`, which is at `path`, and returns all faults.
    pub fn check(&self, data: &Value, path: &str, steps: &mut StepBudget) -> Result<(), Faults> {
        let mut check = SchemaCheck { faults: Faults::new(), steps, null_is_absent: false };
        self.0.check(data, path, &mut check);
        if check.steps.is_exhausted() {
            return Err(too_many_steps(path));
        }
        if check.faults.is_empty() { Ok(()) } else { Err(check.faults) }
    }
}

/// Returns the fault of data at `path` that could not be checked within the budget.
fn too_many_steps(path: &str) -> Faults {
    Faults::one(path, "takes too long to check against what the skill declares; send less of it")
}

#[cfg(test)]
mod tests;
