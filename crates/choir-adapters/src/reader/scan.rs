//! Scanning of JSON bytes: runs of text, numbers and names.

use super::Scalar;

/// Returns the length up to the first byte that ends a text or needs decoding.
#[inline]
pub(super) fn plain(bytes: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let mut at = 0;
    // Eight bytes are tested at a time: a byte is special if it is '"', '\\' or below 0x20.
    while let Some(eight) = bytes.get(at..at + 8).and_then(|eight| <[u8; 8]>::try_from(eight).ok()) {
        let word = u64::from_le_bytes(eight);
        let quote = word ^ (ONES * 0x22);
        let slash = word ^ (ONES * 0x5c);
        let special = (quote.wrapping_sub(ONES) & !quote)
            | (slash.wrapping_sub(ONES) & !slash)
            | (word.wrapping_sub(ONES * 0x20) & !word);
        let special = special & HIGH;
        if special != 0 {
            return at + (special.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    bytes[at..]
        .iter()
        .position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20))
        .map_or(bytes.len(), |more| at + more)
}

/// Appends as many whole characters as fit. Returns `false` if something was left out.
pub(super) fn keep(kept: &mut Vec<u8>, more: &[u8], limit: usize) -> bool {
    let room = limit - kept.len();
    if more.len() <= room {
        kept.extend_from_slice(more);
        return true;
    }
    // The first byte of a character is not of the form 10xxxxxx.
    let end = (0..=room).rev().find(|end| more[*end] & 0xc0 != 0x80).unwrap_or(0);
    kept.extend_from_slice(&more[..end]);
    false
}

/// Parses a JSON number.
pub(super) fn number(digits: &[u8]) -> Option<Scalar> {
    let text = std::str::from_utf8(digits).ok()?;
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let whole = unsigned.len() - unsigned.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (whole, mut rest) = unsigned.split_at(whole);
    if whole.is_empty() || (whole.len() > 1 && whole.starts_with('0')) {
        return None;
    }
    if rest.is_empty() {
        return Some(text.parse().map_or(Scalar::Float, Scalar::Integer));
    }
    let digits = |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    if let Some(fraction) = rest.strip_prefix('.') {
        let count = digits(fraction);
        if count == 0 {
            return None;
        }
        rest = &fraction[count..];
    }
    if let Some(exponent) = rest.strip_prefix(['e', 'E']) {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        let count = digits(exponent);
        if count == 0 {
            return None;
        }
        rest = &exponent[count..];
    }
    rest.is_empty().then_some(Scalar::Float)
}

/// Returns `true` if a member with this name is a credential, in any naming style.
pub(super) fn is_secret_name(name: &[u8]) -> bool {
    // The length rules out almost all names.
    if !(5..=24).contains(&name.len()) {
        return false;
    }
    let folded = |wanted: &[u8]| {
        let mut signs = name.iter().filter(|byte| !matches!(byte, b'_' | b'-')).map(u8::to_ascii_lowercase);
        wanted.iter().all(|byte| signs.next() == Some(*byte)) && signs.next().is_none()
    };
    SECRET_NAMES.iter().any(|wanted| folded(wanted))
}

const SECRET_NAMES: [&[u8]; 11] = [
    b"apikey",
    b"authorization",
    b"xapikey",
    b"accesstoken",
    b"refreshtoken",
    b"authtoken",
    b"bearertoken",
    b"password",
    b"clientsecret",
    b"secretkey",
    b"privatekey",
];
