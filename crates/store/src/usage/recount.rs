//! Computes from the tables how many bytes are stored for whom.

use crate::{StoreError, Tx, audit};

/// The bytes of agents' records: four rows (of the directory, of the inbox and of the index) and texts.
macro_rules! record {
    () => {
        "1024 + OCTET_LENGTH(a.name) + COALESCE(OCTET_LENGTH(a.card), 0) + COALESCE(OCTET_LENGTH(a.endpoint), 0)
             + COALESCE(OCTET_LENGTH(a.description), 0) + COALESCE(OCTET_LENGTH(a.connection), 0)
             + COALESCE(OCTET_LENGTH(a.harness), 0)"
    };
}

/// The bytes of listings on the market.
macro_rules! listing {
    () => {
        "256 + OCTET_LENGTH(m.display_name) + COALESCE(OCTET_LENGTH(m.endpoint), 0)"
    };
}

/// The bytes of offered skills.
macro_rules! skill {
    () => {
        "256 + OCTET_LENGTH(s.name) + COALESCE(OCTET_LENGTH(s.description), 0) + COALESCE(OCTET_LENGTH(s.input_schema), 0)
             + COALESCE(OCTET_LENGTH(s.output_schema), 0)"
    };
}

/// The bytes of one agent's record and of its offers.
pub(super) const ONE_RECORD: &str = concat!(
    "SELECT CAST(COALESCE((SELECT ",
    record!(),
    " FROM agents a WHERE a.id = $1), 0) + COALESCE((SELECT ",
    listing!(),
    " FROM market_agents m WHERE m.agent_id = $1), 0) + COALESCE((SELECT SUM(",
    skill!(),
    ") FROM skills s WHERE s.agent_id = $1), 0) AS BIGINT) AS bytes"
);

/// Everything that is counted, one row for each principal. Digests are the hub's own: one waits for an agent at a time, and
/// retention removes it.
const EVERYTHING: &str = concat!(
    "INSERT INTO usage (principal_id, bytes)
     SELECT who, CAST(SUM(bytes) AS BIGINT) FROM (
         SELECT author_id AS who, COUNT(*) * 256 + SUM(COALESCE(OCTET_LENGTH(body), 0)) AS bytes FROM events
             WHERE kind <> 'digest' GROUP BY author_id
         UNION ALL SELECT e.author_id, SUM(OCTET_LENGTH(b.body)) FROM large_bodies b JOIN events e ON e.id = b.event_id
             WHERE e.kind <> 'digest' GROUP BY e.author_id
         UNION ALL SELECT author_id, SUM(256 + OCTET_LENGTH(content) + COALESCE(OCTET_LENGTH(bytes), 0)) FROM artifacts
             GROUP BY author_id
         UNION ALL SELECT author_id, SUM(256 + OCTET_LENGTH(body)) FROM approvals GROUP BY author_id
         UNION ALL SELECT owner_id, SUM(256 + OCTET_LENGTH(name) + COALESCE(OCTET_LENGTH(context), 0)
                                            + COALESCE(OCTET_LENGTH(glyphs), 0))
             FROM conversations WHERE owner_id IS NOT NULL GROUP BY owner_id
         UNION ALL SELECT maker_id, COUNT(*) * 1024 FROM work_streams GROUP BY maker_id
         UNION ALL SELECT a.id, ",
    record!(),
    " FROM agents a
         UNION ALL SELECT m.agent_id, ",
    listing!(),
    " FROM market_agents m
         UNION ALL SELECT s.agent_id, SUM(",
    skill!(),
    ") FROM skills s GROUP BY s.agent_id
         UNION ALL SELECT COALESCE(account_id, id), 256 + OCTET_LENGTH(owner) FROM wallets
         UNION ALL SELECT COALESCE(w.account_id, w.id), COUNT(*) * 512 FROM transfers t JOIN wallets w ON w.id = t.from_id
             GROUP BY COALESCE(w.account_id, w.id)
         UNION ALL SELECT COALESCE(w.account_id, w.id), SUM(1536 + OCTET_LENGTH(j.skill)
                                   + COALESCE(OCTET_LENGTH(j.output_schema), 0) + COALESCE(OCTET_LENGTH(j.callback), 0))
             FROM jobs j JOIN wallets w ON w.id = j.payer_id GROUP BY COALESCE(w.account_id, w.id)
         UNION ALL SELECT agent_id, SUM(256 + OCTET_LENGTH(result)) FROM jobs WHERE result IS NOT NULL GROUP BY agent_id
         UNION ALL SELECT COALESCE(w.account_id, w.id), SUM(256 + COALESCE(OCTET_LENGTH(q.input), 0))
             FROM quotes q JOIN wallets w ON w.id = q.payer_id GROUP BY COALESCE(w.account_id, w.id)
         UNION ALL SELECT c.owner_id, SUM(256 + OCTET_LENGTH(v.body)) FROM score_versions v JOIN scores c ON c.id = v.score_id
             WHERE c.owner_id IS NOT NULL GROUP BY c.owner_id
         UNION ALL SELECT c.owner_id, SUM(256 + OCTET_LENGTH(x.body)) FROM evidence x JOIN scores c ON c.id = x.score_id
             WHERE c.owner_id IS NOT NULL GROUP BY c.owner_id
         UNION ALL SELECT c.owner_id, SUM(256 + OCTET_LENGTH(x.body)) FROM evidence_answers x JOIN scores c ON c.id = x.score_id
             WHERE c.owner_id IS NOT NULL GROUP BY c.owner_id
         UNION ALL SELECT c.owner_id, SUM(256 + OCTET_LENGTH(r.payload)) FROM receipts r JOIN scores c ON c.id = r.score_id
             WHERE c.owner_id IS NOT NULL GROUP BY c.owner_id
         UNION ALL SELECT c.owner_id, COUNT(*) * 256 FROM comparisons p JOIN receipts r ON r.id = p.before_id
             JOIN scores c ON c.id = r.score_id WHERE c.owner_id IS NOT NULL GROUP BY c.owner_id
     ) AS parts WHERE bytes IS NOT NULL GROUP BY who
     ON CONFLICT (principal_id) DO UPDATE SET bytes = excluded.bytes"
);

/// Adds the bytes of agents to those of the accounts that own them.
const OF_OWNERS: &str = "INSERT INTO usage (principal_id, bytes)
     SELECT a.owner_id, CAST(SUM(u.bytes) AS BIGINT) FROM usage u JOIN agents a ON a.id = u.principal_id
     WHERE a.owner_id IS NOT NULL GROUP BY a.owner_id
     ON CONFLICT (principal_id) DO UPDATE SET bytes = usage.bytes + excluded.bytes";

/// Replaces all figures by what the tables hold. The lengths of texts are in the rows' headers, so no text is read.
pub fn recount(tx: &mut dyn Tx) -> Result<(), StoreError> {
    tx.execute("DELETE FROM usage", &[])?;
    tx.execute(EVERYTHING, &[])?;
    for (author, bytes) in audit::shown_bytes(tx)? {
        tx.execute(
            "INSERT INTO usage (principal_id, bytes) VALUES ($1, $2)
             ON CONFLICT (principal_id) DO UPDATE SET bytes = usage.bytes + excluded.bytes",
            &[(&author.uuid()).into(), bytes.into()],
        )?;
    }
    tx.execute(OF_OWNERS, &[])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{JOB_BYTES, ROW_BYTES, TRANSFER_BYTES, WORK_STREAM_BYTES};

    #[test]
    fn statements_use_the_same_figures() {
        let figures = [ROW_BYTES, WORK_STREAM_BYTES, JOB_BYTES, TRANSFER_BYTES];
        assert_eq!(figures, [256, 1024, 1536, 512]);
    }
}
