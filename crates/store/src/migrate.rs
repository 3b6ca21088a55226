//! Numbered migrations, embedded, the same numbers for both databases.
//!
//! They run when a store is opened, each in a transaction, under a lock, so that of several nodes one does the work: each database
//! in its own way. One with a number this program does not know is refused: it was written by a newer one.

use crate::StoreError;

pub(crate) struct Migration {
    pub(crate) sqlite: &'static str,
    pub(crate) postgres: &'static str,
}

macro_rules! migration {
    ($name:literal) => {
        Migration {
            sqlite: include_str!(concat!("../migrations/sqlite/", $name)),
            postgres: include_str!(concat!("../migrations/postgres/", $name)),
        }
    };
}

/// In this order, whatever the names say: a migration's number is its place here, the first is number 1, and new ones are added
/// at the end. The number in a file's name is who took which name first, and has gaps.
const MIGRATIONS: &[Migration] = &[
    migration!("0001_relay.sql"),
    migration!("0002_unplaced.sql"),
    migration!("0003_people.sql"),
    migration!("0004_former_names.sql"),
    migration!("0005_pushing.sql"),
    migration!("0006_reading.sql"),
    migration!("0007_sealed.sql"),
    migration!("0008_search.sql"),
    migration!("0009_recovery.sql"),
    migration!("0010_consent.sql"),
    migration!("0011_endpoint_proof.sql"),
    migration!("0012_documents.sql"),
    migration!("0013_chats.sql"),
    migration!("0014_mcp_sessions.sql"),
    migration!("0016_loop_guards.sql"),
    migration!("0017_attention.sql"),
    migration!("0020_market.sql"),
    migration!("0021_jobs.sql"),
    migration!("0022_choir.sql"),
    migration!("0025_sent.sql"),
    migration!("0026_whole.sql"),
    migration!("0027_fleet.sql"),
    migration!("0028_trail.sql"),
    migration!("0031_callbacks.sql"),
    migration!("0032_asked_offers.sql"),
    migration!("0033_growing.sql"),
    migration!("0035_unclaimed.sql"),
    migration!("0038_harness_endpoints.sql"),
    migration!("0041_sent_lately.sql"),
    migration!("0040_job_notes.sql"),
    migration!("0036_streams.sql"),
    migration!("0037_digests.sql"),
    migration!("0039_bytes.sql"),
    migration!("0044_open_jobs.sql"),
    migration!("0042_approvals.sql"),
    migration!("0046_leaving.sql"),
    migration!("0045_channel_rules.sql"),
    migration!("0043_tool_calls.sql"),
    migration!("0047_attention.sql"),
    migration!("0048_dispositions.sql"),
    migration!("0049_job_bounds.sql"),
    migration!("0050_skill_words.sql"),
    migration!("0051_tool_calls_about.sql"),
    migration!("0052_handle_since.sql"),
    migration!("0053_closed_inboxes.sql"),
];

/// The number of the newest.
pub(crate) const KNOWN: i64 = MIGRATIONS.len() as i64;

/// What is still to be done on a database of version `found`.
pub(crate) fn pending(found: i64) -> Result<impl Iterator<Item = (i64, &'static Migration)>, StoreError> {
    if found > KNOWN {
        return Err(StoreError::Newer { found, known: KNOWN });
    }
    Ok((1..).zip(MIGRATIONS).filter(move |(number, _)| *number > found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_database_is_refused() {
        assert!(matches!(pending(KNOWN + 1), Err(StoreError::Newer { .. })));
        assert_eq!(pending(KNOWN).unwrap().count(), 0);
        assert_eq!(pending(0).unwrap().count(), MIGRATIONS.len());
    }
}
