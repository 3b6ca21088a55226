//! Whether data fits what a skill declares, in both forms: the document's names with types, and a part of JSON Schema.
//!
//! JSON Schema is meant when there is `$schema`, `properties` or `type: "object"`; else each member names a type. A keyword that is
//! not checked here is refused when the skill is registered: nobody relies on a promise that nobody keeps. Schema and data come
//! from two strangers, and a check runs while others wait for the database: what it costs is counted and has an end.

mod simple;
mod subset;

use chorus_protocol::faults::Faults;
use serde_json::Value;
use simple::Simple;
use subset::Subset;

/// What a schema may be deep, in schemas inside each other.
const MAX_DEPTH: usize = 16;
/// How large a schema may be as JSON, in bytes.
pub const MAX_BYTES: usize = 16 * 1024;

/// What one check may cost, in steps of a few nanoseconds.
const MOST_STEPS: usize = 2_000_000;

/// A check under way: what was found, and how many steps are left.
#[derive(Debug)]
pub(crate) struct Check {
    faults: Faults,
    steps: usize,
}

impl Check {
    /// Takes steps, and says whether there were so many.
    fn spend(&mut self, steps: usize) -> bool {
        let enough = steps <= self.steps;
        self.steps = if enough { self.steps - steps } else { 0 };
        enough
    }
}

/// A schema that can be held against data.
#[derive(Debug)]
pub enum Schema {
    /// Names with types.
    Simple(Simple),
    /// JSON Schema.
    Json(Box<Subset>),
}

impl Schema {
    /// Reads a declared schema, which is at `path`, and notes everything that is wrong with it.
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
        if is_json_schema {
            Subset::read(declared, path, faults).map(Box::new).map(Self::Json)
        } else {
            Simple::read(members, path, faults).map(Self::Simple)
        }
    }

    /// Everything in which `data`, which is at `path`, is not what was declared.
    pub fn check(&self, data: &Value, path: &str) -> Result<(), Faults> {
        let mut check = Check { faults: Faults::new(), steps: MOST_STEPS };
        match self {
            Self::Simple(simple) => simple.check(data, path, &mut check.faults),
            Self::Json(subset) => subset.check(data, path, &mut check),
        }
        if check.steps == 0 {
            check
                .faults
                .add(path, "takes too long to check against what the skill declares; send less of it");
        }
        if check.faults.is_empty() { Ok(()) } else { Err(check.faults) }
    }
}

/// Whether data fits a schema that was accepted when its skill was registered; one that is not there fits everything.
pub fn check(declared: Option<&Value>, data: &Value, path: &str) -> Result<(), Faults> {
    let Some(declared) = declared else { return Ok(()) };
    let mut faults = Faults::new();
    match Schema::read(declared, "schema", &mut faults) {
        Some(schema) if faults.is_empty() => schema.check(data, path),
        _ => Err(faults),
    }
}

#[cfg(test)]
mod tests;
