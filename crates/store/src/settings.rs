//! A few named values of the hub itself, and the proof that the store can write.

use crate::{StoreError, Tx, TxExt};

/// A value, if it was set.
pub fn get(tx: &mut dyn Tx, name: &str) -> Result<Option<String>, StoreError> {
    tx.first("SELECT value FROM settings WHERE name = $1", &[name.into()])?
        .map(|mut row| row.text("value"))
        .transpose()
}

pub fn set(tx: &mut dyn Tx, name: &str, value: &str) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        &[name.into(), value.into()],
    )?;
    Ok(())
}

/// Sets a value, or forgets it.
pub(crate) fn set_or_remove(tx: &mut dyn Tx, name: &str, value: Option<&str>) -> Result<(), StoreError> {
    match value {
        Some(value) => set(tx, name, value),
        None => tx.execute("DELETE FROM settings WHERE name = $1", &[name.into()]).map(drop),
    }
}

/// Sets a value that nobody has set yet, and returns what holds now and whether it was this call that set it.
pub fn set_once(tx: &mut dyn Tx, name: &str, value: &str) -> Result<(String, bool), StoreError> {
    let set = tx.execute(
        "INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING",
        &[name.into(), value.into()],
    )?;
    let holds = get(tx, name)?.ok_or_else(|| StoreError::unexpected("a setting vanished"))?;
    Ok((holds, set == 1))
}
