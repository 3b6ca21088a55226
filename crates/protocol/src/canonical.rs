//! The canonical form of JSON (RFC 8785), used for hashing and signing.
//!
//! [`parse`] accepts only I-JSON without integers that a binary64 cannot hold exactly. Every value it accepts
//! has exactly one canonical form, which parses back to the same value. Text is not normalised, and `null`
//! differs from absence.

use crate::json::{self, JsonError, Rules};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// Parses one JSON value and rejects values without a canonical form.
pub fn parse(bytes: &[u8]) -> Result<Value, JsonError> {
    json::parse_by(bytes, Rules { nul: true, exact: true })
}

/// Returns the canonical text of a value. The value must come from [`parse`] or hold no number beyond
/// [`json::MAX_WHOLE`].
pub fn text(value: &Value) -> String {
    let mut out = String::with_capacity(256);
    write_value(value, &mut out);
    out
}

/// Returns the SHA-256 hash as lower-case hex.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Returns the SHA-256 hash of a value's canonical text.
pub fn hash(value: &Value) -> String {
    sha256(text(value).as_bytes())
}

/// Formats bytes as lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn write_value(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => push(out, format_args!("{whole}")),
            (None, float) => write_float(float.unwrap_or_default(), out),
        },
        Value::String(text) => write_text(text, out),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_value(item, out);
            }
            out.push(']');
        }
        Value::Object(members) => write_object(members, out),
    }
}

fn write_object(members: &Map<String, Value>, out: &mut String) {
    // RFC 8785 sorts names by UTF-16 code units. That order differs from UTF-8 only for characters beyond the
    // Basic Multilingual Plane.
    let beyond = |name: &String| name.bytes().any(|byte| byte >= 0xf0);
    let mut members: Vec<_> = members.iter().collect();
    if members.iter().any(|(name, _)| beyond(name)) {
        members.sort_by(|(one, _), (other, _)| one.encode_utf16().cmp(other.encode_utf16()));
    } else {
        members.sort_by_key(|(name, _)| *name);
    }
    out.push('{');
    for (index, (name, value)) in members.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_text(name, out);
        out.push(':');
        write_value(value, out);
    }
    out.push('}');
}

fn write_text(text: &str, out: &mut String) {
    out.push('"');
    let mut written = 0;
    for (index, byte) in text.bytes().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.push_str(&text[written..index]);
        written = index + 1;
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            0x08 => out.push_str("\\b"),
            0x09 => out.push_str("\\t"),
            0x0a => out.push_str("\\n"),
            0x0c => out.push_str("\\f"),
            0x0d => out.push_str("\\r"),
            _ => push(out, format_args!("\\u{byte:04x}")),
        }
    }
    out.push_str(&text[written..]);
    out.push('"');
}

/// Writes a number as ECMAScript does: the shortest digits that parse back to the same number, without an
/// exponent between 1e-6 and 1e21.
fn write_float(number: f64, out: &mut String) {
    if number == 0.0 {
        return out.push('0');
    }
    if number < 0.0 {
        out.push('-');
    }
    let scientific = shortest(number.abs());
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let digits = mantissa.replace('.', "");
    let (count, point) = (digits.len() as i32, exponent.parse::<i32>().unwrap_or_default() + 1);
    let zeros = |count: i32| "0".repeat(usize::try_from(count).unwrap_or_default());
    match point {
        22.. | ..=-6 => {
            let (first, rest) = digits.split_at(1);
            let dot = if rest.is_empty() { "" } else { "." };
            push(out, format_args!("{first}{dot}{rest}e{:+}", point - 1));
        }
        1.. if count <= point => push(out, format_args!("{digits}{}", zeros(point - count))),
        1.. => {
            let (whole, rest) = digits.split_at(point.unsigned_abs() as usize);
            push(out, format_args!("{whole}.{rest}"));
        }
        _ => push(out, format_args!("0.{}{digits}", zeros(-point))),
    }
}

/// Returns the shortest digits as `d.ddde±x`. ECMAScript breaks ties towards even digits, which `{:e}` does
/// not guarantee. Ties occur only with sixteen digits or more.
fn shortest(number: f64) -> String {
    let shortest = format!("{number:e}");
    let count = shortest.split('e').next().map_or(0, |mantissa| mantissa.len() - 1);
    if count < 16 {
        return shortest;
    }
    let nearest = format!("{number:.*e}", count - 1);
    if nearest.parse() == Ok(number) { nearest } else { shortest }
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.push_str(&text.to_string());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WHOLE: i64 = json::MAX_WHOLE as i64;

    fn vectors() -> Value {
        serde_json::from_str(include_str!("canonical/vectors.json")).unwrap()
    }

    #[test]
    fn accepted_vectors() {
        for vector in vectors()["accept"].as_array().unwrap() {
            let value = parse(vector["input"].as_str().unwrap().as_bytes()).unwrap();
            assert_eq!(text(&value), vector["canonical"].as_str().unwrap());
            assert_eq!(hash(&value), vector["sha256"].as_str().unwrap());
        }
    }

    #[test]
    fn refused_vectors() {
        for vector in vectors()["reject"].as_array().unwrap() {
            let input = vector["input"].as_str().unwrap();
            assert!(parse(input.as_bytes()).is_err(), "{}", vector["why"]);
        }
    }

    #[test]
    fn numbers_as_ecmascript_spells_them() {
        for (bits, expected) in [
            (0x0000_0000_0000_0001, "5e-324"),
            (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
            (0x4340_0000_0000_0000, "9007199254740992"),
            (0x4430_0000_0000_0000, "295147905179352830000"),
            (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
            (0x44b5_2d02_c7e1_4af6, "1e+23"),
            (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
            (0x444b_1ae4_d6e2_ef50, "1e+21"),
            (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
            (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
            (0x41b3_de43_5555_5555, "333333333.3333333"),
            // This value lies exactly between two candidates; the even digits win.
            (0x42d5_02ad_b591_2a48, "92404993901737.12"),
            (0x4310_0000_0000_0001, "1125899906842624.2"),
        ] {
            let mut out = String::new();
            write_float(f64::from_bits(bits), &mut out);
            assert_eq!(out, expected);
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let number = prop_oneof![
            (-WHOLE..=WHOLE).prop_map(Value::from),
            any::<f64>().prop_map(|number| Value::from(number / 1e300)),
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            number,
            any::<String>().prop_map(Value::String),
        ];
        leaf.prop_recursive(4, 32, 8, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
                proptest::collection::btree_map(any::<String>(), inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_canonical_form_reads_back_as_itself(value in any_value()) {
            let once = text(&value);
            if let Ok(read) = parse(once.as_bytes()) {
                prop_assert_eq!(text(&read), once);
            } else {
                // `parse` rejects only integers that a binary64 cannot hold exactly.
                prop_assert!(once.bytes().filter(u8::is_ascii_digit).count() >= 16);
            }
        }

        #[test]
        fn every_float_reads_back(bits in any::<u64>()) {
            let number = f64::from_bits(bits);
            prop_assume!(number.is_finite() && number != 0.0);
            let mut out = String::new();
            write_float(number, &mut out);
            prop_assert_eq!(out.parse::<f64>().unwrap().to_bits(), bits);
        }
    }
}
