//! Validation and documentation of bodies from one definition: the checks use the schema that the OpenAPI
//! document shows.
//!
//! [`read`] checks a value against the schema that `utoipa` derives for a type and notes every fault at once;
//! only then does `serde` read it. It supports the part of JSON Schema that the protocol types use and ignores
//! everything else. Of several schemas (`oneOf`) the one whose required members are present applies. A few
//! types have rules that a schema cannot express; those are checked by functions. `null` counts as absent, as
//! most JSON writers intend, and `1.0` is an integer. A schema's `title` completes the sentence "must be …"
//! where a pattern alone would say little.
//!
//! The walk over a value is the same for the schemas that strangers declare on the market ([`SchemaNode`]).

mod compile;
mod node;

pub use node::{
    Additional, Choices, JsonType, Members, NumberRange, Property, SchemaCheck, SchemaNode, StepBudget,
    TextPattern, TextRule, ValueRule, span,
};

use crate::faults::Faults;
use crate::json;
use compile::{compile, compile_parameter};
use node::within;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::any::TypeId;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use utoipa::openapi::Required;
use utoipa::openapi::path::ParameterIn;
use utoipa::{IntoParams, ToSchema};

/// The maximum number of unknown members that are listed.
const MAX_UNKNOWN: usize = 1000;

/// Reads a value of type `T`, or returns all faults.
pub fn read<T: ToSchema + DeserializeOwned + 'static>(mut value: Value) -> Result<T, Faults> {
    let schema = schema_of::<T>();
    check(&schema, &value)?;
    schema.normalise(&mut value);
    // The type accepts everything that its schema accepts; if they ever differ, this error tells where.
    serde_json::from_value(value).map_err(|error| Faults::one("body", error))
}

/// Returns the paths of members unknown to `T`, up to a limit. They are no faults, but callers can warn about
/// misspelt names. Members that begin with `$`, `_` or `x-` are extensions and not listed.
pub fn unknown_members<T: ToSchema + 'static>(value: &Value) -> Vec<String> {
    let mut found = vec![];
    schema_of::<T>().find_unknown(value, "", MAX_UNKNOWN, &mut found);
    found
}

/// Reads a body whose numbers are parsed from their text, such as amounts. The schema checks the parsed
/// numbers; `serde` then reads the original text.
pub fn read_exact<T: ToSchema + DeserializeOwned + 'static>(body: &[u8]) -> Result<T, Faults> {
    let value = json::parse(body).map_err(|error| Faults::one("body", error))?;
    check(&schema_of::<T>(), &value)?;
    serde_json::from_slice(body).map_err(|error| Faults::one("body", error))
}

fn check(schema: &SchemaNode, value: &Value) -> Result<(), Faults> {
    let steps = &mut StepBudget::unlimited();
    let mut check = SchemaCheck { faults: Faults::new(), steps, null_is_absent: true };
    schema.check(value, "", &mut check);
    if check.faults.is_empty() { Ok(()) } else { Err(check.faults) }
}

/// Reads the parameters of a query, or returns all faults. If a parameter is repeated the last one counts. An
/// empty text counts as absent where the schema allows an empty text.
pub fn read_query<'a, T: IntoParams + DeserializeOwned + 'static>(
    pairs: impl Iterator<Item = (Cow<'a, str>, Cow<'a, str>)>,
) -> Result<T, Faults> {
    let (parameters, mut faults, mut query) = (parameters_of::<T>(), Faults::new(), Map::new());
    for (name, text) in pairs {
        let Some(parameter) = parameters.iter().find(|known| known.name == name) else { continue };
        match parameter.read(&text) {
            Ok(Value::Null) => drop(query.remove(&*name)),
            Ok(value) => drop(query.insert(name.into_owned(), value)),
            Err(what) => faults.add(&name, what),
        }
    }
    let mut check = SchemaCheck { faults, steps: &mut StepBudget::unlimited(), null_is_absent: true };
    for Parameter { name, property, .. } in &*parameters {
        property.check(query.get(name), name, &mut check);
    }
    if !check.faults.is_empty() {
        return Err(check.faults);
    }
    serde_json::from_value(query.into()).map_err(|error| Faults::one("query", error))
}

/// A parameter of a query.
struct Parameter {
    name: String,
    property: Property,
    /// Set if an empty text is a value that the schema allows.
    may_be_empty: bool,
}

impl Parameter {
    /// Converts the parameter's text to a value, or returns the fault.
    fn read(&self, text: &str) -> Result<Value, String> {
        let node = &self.property.node;
        if text.contains('\0') {
            return Err("must not contain U+0000".into());
        }
        if let Some(range) = &node.range {
            let whole = text.parse::<i64>().ok().map(Value::from).filter(|whole| range.allows(whole));
            return whole.ok_or_else(|| range.fault.clone());
        }
        match text {
            text if node.types.contains(&JsonType::Boolean) => {
                text.parse::<bool>().map(Into::into).map_err(|_| "must be true or false".into())
            }
            "" if self.may_be_empty => Ok(Value::Null),
            text => Ok(text.into()),
        }
    }
}

/// Values that are made once per type.
type ByType<T> = LazyLock<Mutex<HashMap<TypeId, Arc<T>>>>;

static SCHEMAS: ByType<SchemaNode> = LazyLock::new(Mutex::default);
static PARAMETERS: ByType<Vec<Parameter>> = LazyLock::new(Mutex::default);

fn schema_of<T: ToSchema + 'static>() -> Arc<SchemaNode> {
    let mut known = SCHEMAS.lock().unwrap_or_else(PoisonError::into_inner);
    let schema = known.entry(TypeId::of::<T>()).or_insert_with(|| {
        let mut named = vec![];
        T::schemas(&mut named);
        let named = named.into_iter().map(|(name, schema)| (name, serde_json::json!(schema))).collect();
        Arc::new(compile(&serde_json::json!(T::schema()), &named, 0))
    });
    Arc::clone(schema)
}

fn parameters_of<T: IntoParams + 'static>() -> Arc<Vec<Parameter>> {
    let mut known = PARAMETERS.lock().unwrap_or_else(PoisonError::into_inner);
    let parameters = known.entry(TypeId::of::<T>()).or_insert_with(|| {
        let all = T::into_params(|| Some(ParameterIn::Query)).into_iter().map(|parameter| {
            let (node, may_be_empty) = compile_parameter(&serde_json::json!(parameter.schema));
            let property = Property { required: parameter.required == Required::True, node };
            Parameter { name: parameter.name, property, may_be_empty }
        });
        Arc::new(all.collect())
    });
    Arc::clone(parameters)
}

#[cfg(test)]
mod tests;
