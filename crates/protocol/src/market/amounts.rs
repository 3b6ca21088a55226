//! Amounts of credits and reputation scores: integers in memory, plain numbers on the wire.
//!
//! An amount is parsed from the text of its number, because a JSON parser loses the notation of `0.1000` or
//! `1e1`, and amounts are never rounded. Bodies with amounts must be read from their bytes
//! ([`crate::schema::read_exact`]).

use crate::faults::{Faults, kind};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;
use std::fmt;
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, Type};

/// An amount of credits, in hundredths; never negative.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Credits(i64);

/// The reasons why a text is not an amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotCredits {
    /// The text is not a plain number.
    #[error("must be a number like 0.15, without sign, exponent or leading zeros")]
    NotPlain,
    /// The amount is finer than a hundredth.
    #[error("must have at most two decimals; amounts are never rounded")]
    TooFine,
    /// The amount exceeds [`Credits::MAX`].
    #[error("must be at most {}", Credits::MAX)]
    TooLarge,
}

impl Credits {
    /// An amount of zero.
    pub const ZERO: Self = Self(0);
    /// The largest amount: ten million million credits. Every amount up to it is exact in a binary64.
    pub const MAX: Self = Self(1_000_000_000_000_000);

    /// Creates an amount from hundredths. Returns `None` if it is out of range.
    pub const fn from_hundredths(hundredths: i64) -> Option<Self> {
        if hundredths < 0 || hundredths > Self::MAX.0 { None } else { Some(Self(hundredths)) }
    }

    /// Returns the amount in hundredths.
    pub const fn hundredths(self) -> i64 {
        self.0
    }

    /// Subtracts an amount and stops at zero.
    pub fn minus(self, other: Self) -> Self {
        Self((self.0 - other.0).max(0))
    }

    /// Adds an amount. Returns `None` if the sum is out of range.
    pub fn plus(self, other: Self) -> Option<Self> {
        Self::from_hundredths(self.0 + other.0)
    }

    /// Returns `true` if the amount is zero.
    pub fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Parses a plain number: `0` or digits without leading zeros, then at most two decimals.
    pub fn parse(text: &str) -> Result<Self, NotCredits> {
        let (whole, decimals) = match text.split_once('.') {
            Some((_, "")) => return Err(NotCredits::NotPlain),
            Some(parts) => parts,
            None => (text, ""),
        };
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let leading = whole.len() > 1 && whole.starts_with('0');
        if whole.is_empty() || leading || !digits(whole) || !digits(decimals) {
            return Err(NotCredits::NotPlain);
        }
        if decimals.len() > 2 {
            return Err(NotCredits::TooFine);
        }
        let hundredths = format!("{whole}{decimals:0<2}").parse().ok();
        hundredths.and_then(Self::from_hundredths).ok_or(NotCredits::TooLarge)
    }

    /// Adds the faults of a value as far as they are visible after parsing.
    pub(crate) fn check(value: &Value, path: &str, faults: &mut Faults) {
        let wrong = match value {
            // `1e3` looks like `1000.0` here. The reader of the original text rejects it.
            Value::Number(number) => match number.as_f64() {
                Some(whole) if whole.fract() == 0.0 && whole >= 0.0 => {
                    (whole > Self::MAX.0 as f64 / 100.0).then_some(NotCredits::TooLarge)
                }
                _ => Self::parse(&number.to_string()).err(),
            },
            other => return faults.add(path, format_args!("must be a number, not {}", kind(other))),
        };
        if let Some(wrong) = wrong {
            faults.add(path, wrong);
        }
    }
}

impl fmt::Display for Credits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02}", self.0 / 100, self.0 % 100)
    }
}

impl Serialize for Credits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Formatting the nearest binary64 restores the two decimals.
        serializer.serialize_f64(self.0 as f64 / 100.0)
    }
}

impl<'de> Deserialize<'de> for Credits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        Self::parse(text.get()).map_err(|wrong| {
            serde::de::Error::custom(format_args!(
                "an amount of credits {wrong}, not {}",
                shortened(text.get())
            ))
        })
    }
}

/// Returns the beginning of a text for an error message.
fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

impl utoipa::ToSchema for Credits {
    fn name() -> std::borrow::Cow<'static, str> {
        "Credits".into()
    }
}

impl utoipa::PartialSchema for Credits {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::Number)
            .description(Some("Credits, with at most two decimals"))
            .minimum(Some(0))
            .maximum(Some(Self::MAX.0 / 100))
            .examples([serde_json::json!(0.15)])
            .into()
    }
}

/// A reputation score from 0 to 100, in steps of 0.0001.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reputation(i64);

impl Reputation {
    pub const MIN: Self = Self(0);
    /// The score of a new agent.
    pub const NEUTRAL: Self = Self(500_000);
    pub const MAX: Self = Self(1_000_000);

    /// Creates a score from ten-thousandths, clamped to the valid range.
    pub fn clamped(ten_thousandths: i64) -> Self {
        Self(ten_thousandths.clamp(Self::MIN.0, Self::MAX.0))
    }

    /// Returns the score in ten-thousandths.
    pub fn ten_thousandths(self) -> i64 {
        self.0
    }

    /// Parses a number from 0 to 100. Decimals beyond the fourth are cut off.
    pub fn parse(text: &str) -> Option<Self> {
        let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(decimals) || whole.len() > 3 {
            return None;
        }
        let decimals: String = decimals.chars().chain("0000".chars()).take(4).collect();
        let score = format!("{whole}{decimals}").parse().ok()?;
        (score <= Self::MAX.0).then_some(Self(score))
    }
}

impl fmt::Display for Reputation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:04}", self.0 / 10_000, self.0 % 10_000)
    }
}

impl Serialize for Reputation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0 as f64 / 10_000.0)
    }
}

impl<'de> Deserialize<'de> for Reputation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let score = f64::deserialize(deserializer)?;
        if !(0.0..=100.0).contains(&score) {
            return Err(serde::de::Error::custom("a reputation is a number from 0 to 100"));
        }
        Ok(Self((score * 10_000.0).round() as i64))
    }
}

impl utoipa::ToSchema for Reputation {
    fn name() -> std::borrow::Cow<'static, str> {
        "Reputation".into()
    }
}

impl utoipa::PartialSchema for Reputation {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::Number)
            .description(Some("A reputation, from 0 to 100 in steps of 0.0001"))
            .minimum(Some(0))
            .maximum(Some(100))
            .examples([serde_json::json!(92.3)])
            .into()
    }
}
