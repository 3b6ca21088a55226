//! Numbered migrations, embedded in the program, with the same numbers for both databases.
//!
//! They run when a store is opened: each in a transaction, under a lock, so that one of several nodes does the work. A database
//! with a higher number than this program knows was written by a newer program and is refused.

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

/// The schema version of the first release. Builds before it counted from 1; their databases are refused.
pub(crate) const FIRST: i64 = 100;

/// The schema versions that the last builds before the first release wrote into exports. Their tables are those of [`FIRST`], but
/// that 45 names streams by their id alone.
const UNRELEASED_EXPORTS: [i64; 2] = [45, 50];

/// All migrations in order: the first makes a database of version [`FIRST`], each further one raises the version by one.
pub(crate) const MIGRATIONS: &[Migration] = &[
    migration!("0100_baseline.sql"),
    migration!("0101_receipts.sql"),
    migration!("0103_stops.sql"),
    migration!("0104_work.sql"),
];

/// The newest schema version.
pub(crate) const KNOWN: i64 = FIRST + MIGRATIONS.len() as i64 - 1;

/// Returns the migrations to run on a database of version `found`, with their numbers. A new database has version 0.
pub(crate) fn pending(
    found: i64,
    migrations: &[Migration],
) -> Result<impl Iterator<Item = (i64, &Migration)>, StoreError> {
    let known = FIRST + migrations.len() as i64 - 1;
    if found > known {
        return Err(StoreError::Newer { found, known });
    }
    if (1..FIRST).contains(&found) {
        return Err(StoreError::Unreleased { found });
    }
    Ok((FIRST..).zip(migrations).filter(move |(number, _)| *number > found))
}

/// Returns the version of the tables in an export whose header says `version`.
pub(crate) fn exported_version(version: i64) -> i64 {
    if UNRELEASED_EXPORTS.contains(&version) { FIRST } else { version }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PostgresOptions, SqliteOptions, Store, Tx, settings};

    const SECOND: Migration = Migration {
        sqlite: "ALTER TABLE settings ADD COLUMN note TEXT NOT NULL DEFAULT 'second'",
        postgres: "ALTER TABLE settings ADD COLUMN note TEXT NOT NULL DEFAULT 'second'",
    };

    #[test]
    fn only_databases_of_releases_are_upgraded() {
        assert_eq!(pending(0, MIGRATIONS).unwrap().count(), MIGRATIONS.len());
        assert_eq!(pending(KNOWN, MIGRATIONS).unwrap().count(), 0);
        assert!(matches!(pending(KNOWN + 1, MIGRATIONS), Err(StoreError::Newer { .. })));
        for version in [1, UNRELEASED_EXPORTS[0], FIRST - 1] {
            assert!(matches!(pending(version, MIGRATIONS), Err(StoreError::Unreleased { .. })));
        }
        assert_eq!([45, 46, 50, 51, FIRST].map(exported_version), [FIRST, 46, FIRST, 51, FIRST]);
    }

    /// A database of the first release, and the same with one migration more.
    fn first_and_second() -> [Vec<Migration>; 2] {
        let first = || migration!("0100_baseline.sql");
        [vec![first()], vec![first(), SECOND]]
    }

    const FILL: &str = "INSERT INTO settings (name, value) VALUES ('kept', '1')";
    const LOOK: &str = "SELECT value || ' ' || note FROM settings WHERE name = 'kept'";

    #[test]
    fn a_sqlite_database_of_the_first_release_is_upgraded() {
        let [first, second] = first_and_second();
        let mut connection = rusqlite::Connection::open_in_memory().unwrap();
        crate::sqlite::migrate(&mut connection, &first).unwrap();
        connection.execute(FILL, []).unwrap();
        for _ in 0..2 {
            crate::sqlite::migrate(&mut connection, &second).unwrap();
            let found: String = connection.query_row(LOOK, [], |row| row.get(0)).unwrap();
            assert_eq!(found, "1 second");
            let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
            assert_eq!(version, FIRST + 1);
        }
        let refused = crate::sqlite::migrate(&mut connection, &first).unwrap_err();
        assert!(matches!(refused, StoreError::Newer { .. }), "{refused}");
    }

    #[test]
    fn a_postgres_database_of_the_first_release_is_upgraded() {
        let [first, second] = first_and_second();
        let database = chorus_testkit::postgres::database();
        let mut client = postgres::Client::connect(&database.url, postgres::NoTls).unwrap();
        crate::postgres::migrate(&mut client, &first).unwrap();
        client.execute(FILL, &[]).unwrap();
        for _ in 0..2 {
            crate::postgres::migrate(&mut client, &second).unwrap();
            assert_eq!(client.query_one(LOOK, &[]).unwrap().get::<_, String>(0), "1 second");
            let versions =
                client.query_one("SELECT MAX(version), COUNT(*) FROM schema_version", &[]).unwrap();
            assert_eq!((versions.get(0), versions.get(1)), (FIRST + 1, 2_i64));
        }
        let refused = crate::postgres::migrate(&mut client, &first).unwrap_err();
        assert!(matches!(refused, StoreError::Newer { .. }), "{refused}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_database_of_an_unreleased_build_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chorus.db");
        let database = chorus_testkit::postgres::database();
        let stores = || {
            let node = uuid::Uuid::from_u128(1);
            [
                Store::sqlite(SqliteOptions::file(&path)),
                Store::postgres(PostgresOptions::new(&database.url, node)),
            ]
        };
        for (store, sql) in
            stores().into_iter().zip(["PRAGMA user_version = 50", "UPDATE schema_version SET version = 50"])
        {
            let store = store.unwrap();
            let age = move |tx: &mut dyn Tx| {
                settings::set(tx, "kept", "1")?;
                tx.execute(sql, &[])
            };
            store.write::<_, StoreError, _>(age).await.unwrap();
        }
        for _ in 0..2 {
            for store in stores() {
                let refused = store.err().unwrap();
                assert!(matches!(refused, StoreError::Unreleased { found: 50 }), "{refused}");
                assert!(refused.to_string().contains("export"), "{refused}");
            }
        }
    }
}
