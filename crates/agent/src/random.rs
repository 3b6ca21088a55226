//! Randomness: for pauses that nobody shares, and for names that nobody can guess.

/// A number nobody can foresee, for jitter. A system without randomness still gets a pause.
pub(crate) fn random() -> u64 {
    getrandom::u64().unwrap_or_default()
}

/// 128 bits nobody can guess, in hex.
pub(crate) fn random_hex() -> Result<String, getrandom::Error> {
    Ok(format!("{:016x}{:016x}", getrandom::u64()?, getrandom::u64()?))
}
