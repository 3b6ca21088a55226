//! JSON parsing for the I-JSON subset (RFC 7493), which every reader interprets alike.
//!
//! Beyond syntax errors it rejects duplicate member names (two readers could see two different senders in one
//! envelope), deep nesting and, unless [`Rules`] allow it, U+0000 (PostgreSQL cannot store it). Errors give
//! the reason and the position.

use serde::de::{
    self, Deserialize as _, DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor,
};
use serde_json::{Map, Number, Value};
use std::fmt;

/// The maximum nesting depth of arrays and objects.
pub const MAX_DEPTH: usize = 64;

/// The largest integer that a binary64, and so every JSON program, holds exactly.
pub const MAX_WHOLE: u64 = (1 << 53) - 1;

/// The reasons for rejecting a body. The message gives line and column.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    #[error("the body is not valid UTF-8 (byte {0})")]
    NotUtf8(usize),
    /// The body is malformed, too deep, or holds duplicate names or U+0000.
    #[error("the body is not acceptable JSON: {0}")]
    Malformed(#[from] serde_json::Error),
}

/// Parses one JSON value that fills `bytes`.
pub fn parse(bytes: &[u8]) -> Result<Value, JsonError> {
    parse_by(bytes, Rules::default())
}

/// Parses one JSON value that fills `bytes`, under the given rules.
pub fn parse_by(bytes: &[u8], rules: Rules) -> Result<Value, JsonError> {
    let text = std::str::from_utf8(bytes).map_err(|error| JsonError::NotUtf8(error.valid_up_to()))?;
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Strict { depth: 0, rules }.deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}

/// The options of the parser.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rules {
    /// Allows U+0000 in texts. Set it for values that are not stored as text.
    pub nul: bool,
    /// Rejects integers that a binary64 cannot hold exactly, in any notation.
    pub exact: bool,
}

/// A seed that builds a [`Value`] and tracks its depth.
struct Strict {
    depth: usize,
    rules: Rules,
}

impl Strict {
    fn deeper<E: de::Error>(&self) -> Result<Self, E> {
        if self.depth == MAX_DEPTH {
            return Err(E::custom(format_args!("nested deeper than {MAX_DEPTH} levels")));
        }
        Ok(Self { depth: self.depth + 1, rules: self.rules })
    }

    fn text<E: de::Error>(&self, text: &str) -> Result<(), E> {
        if !self.rules.nul && text.contains('\0') { Err(E::custom("text contains U+0000")) } else { Ok(()) }
    }

    fn exact<E: de::Error>(&self, exact: bool) -> Result<(), E> {
        if self.rules.exact && !exact {
            return Err(E::custom(
                "a whole number beyond 2^53-1 is not exact in every program: write it as text",
            ));
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
        self.exact(value.unsigned_abs() <= MAX_WHOLE)?;
        Ok(value.into())
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        self.exact(value <= MAX_WHOLE)?;
        Ok(value.into())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        // Every binary64 beyond this value is an integer.
        self.exact(value.abs() <= MAX_WHOLE as f64)?;
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        self.text(value)?;
        Ok(value.into())
    }

    fn visit_string<E: de::Error>(self, value: String) -> Result<Value, E> {
        self.text(&value)?;
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(self.deeper()?)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let (inside, mut map) = (self.deeper::<A::Error>()?.depth, Map::new());
        while let Some(name) = access.next_key::<String>()? {
            self.text(&name)?;
            if map.contains_key(&name) {
                return Err(de::Error::custom(format_args!("duplicate member \"{}\"", name.escape_debug())));
            }
            let value = access.next_value_seed(Self { depth: inside, rules: self.rules })?;
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }
}

/// Returns an integer, also if it is written with a fraction of zero (`3.0`).
pub fn whole(value: &Value) -> Option<i64> {
    const END: f64 = 9_223_372_036_854_775_808.0;
    let whole = |number: &f64| number.fract() == 0.0 && (-END..END).contains(number);
    value.as_i64().or_else(|| value.as_f64().filter(whole).map(|number| number as i64))
}

/// Reads a value that may have an unexpected type or a newer word; such a value counts as absent. Used with
/// serde's `deserialize_with` and `default`.
pub(crate) fn known<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    reader: D,
) -> Result<Option<T>, D::Error> {
    let value = Value::deserialize(reader)?;
    Ok(serde_json::from_value(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fault(bytes: &[u8]) -> String {
        parse(bytes).unwrap_err().to_string()
    }

    #[test]
    fn refusals_say_why() {
        assert!(fault(b"{\"a\":1,\"a\":2}").contains("duplicate member \"a\""));
        assert!(fault(br#"{"a":"x\u0000y"}"#).contains("U+0000"));
        assert!(fault(br#"{"a\u0000":1}"#).contains("U+0000"));
        assert!(fault(b"{\"a\":\"\xff\"}").contains("not valid UTF-8 (byte 6)"));
        assert!(fault(b"{\"a\":}").contains("line 1 column 6"));
        assert!(fault(b"{} x").contains("trailing"));
        assert!(fault(b"").contains("EOF"));
        assert!(fault(br#"{"a":"\ud800"}"#).contains("not acceptable JSON"));
        assert!(fault(b"1e999").contains("out of range"));
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth)).into_bytes();
        assert!(parse(&nested(MAX_DEPTH)).is_ok());
        assert!(fault(&nested(MAX_DEPTH + 1)).contains("nested deeper than 64 levels"));
        let around = |inside: &str| format!("{}{inside}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
        for (inside, good) in [("0", true), ("[]", false), ("{}", false)] {
            assert_eq!(parse(around(inside).as_bytes()).is_ok(), good, "{inside}");
        }
        assert!(parse(&nested(100_000)).is_err());
    }

    #[test]
    fn numbers_are_written_as_they_were_read() {
        for text in ["0.1", "51.248178375505404", "2.638344616030823e-256", "1.8446744073709439e+283"] {
            assert_eq!(parse(text.as_bytes()).unwrap().to_string(), text);
        }
    }

    #[test]
    fn an_escaped_backslash_is_not_a_nul() {
        assert_eq!(parse(br#""\\u0000""#).unwrap(), Value::String(r"\u0000".into()));
    }

    proptest! {
        #[test]
        fn agrees_with_serde_json_where_it_accepts(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(value) = parse(&bytes) {
                prop_assert_eq!(value, serde_json::from_slice::<Value>(&bytes).unwrap());
            }
        }
    }
}
