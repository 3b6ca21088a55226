//! `chorus export`, `import` and `backup`: move all data out of a hub, and into another.
//!
//! They use the database itself, without a hub. Progress goes to standard error.

use super::serve::{Place, prepare_folder};
use crate::failure::Explained;
use crate::global::Global;
use crate::output;
use crate::settings::{self, Layer, Settings};
use anyhow::Context;
use chorus_hub::Environment;
use chorus_store::transfer::{self, Import, TransferError};
use chorus_store::{Store, Tx};
use serde_json::json;
use std::fs::{File, OpenOptions};
use std::io::{BufReader, BufWriter};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const BACKUP_EXAMPLES: &str = "\
Examples:
  chorus backup copies/monday/chorus.db                 of the hub in ./chorus-data
  chorus backup copy.db --data /var/lib/chorus
  chorus serve --data copies/monday                     a hub, with the first one's master key";

const EXPORT_EXAMPLES: &str = "\
Examples:
  chorus export hub.export                              of the stopped hub in ./chorus-data
  chorus export hub.export --database postgres://…      of one on PostgreSQL";

const IMPORT_EXAMPLES: &str = "\
Examples:
  chorus import hub.export --data ./new                 into SQLite
  chorus import hub.export --database postgres://…      into PostgreSQL";

/// The options that select a database.
#[derive(clap::Args)]
pub(super) struct Which {
    /// The folder of the database and of the hub's keys [env: CHORUS_DATA] [default: ./chorus-data]
    #[arg(long, value_name = "FOLDER")]
    data: Option<String>,
    /// postgres://… instead of SQLite [env: CHORUS_DATABASE_URL]
    #[arg(long, value_name = "URL")]
    database: Option<String>,
}

impl Which {
    pub(super) fn new(data: Option<String>, database: Option<String>) -> Self {
        Self { data, database }
    }

    fn load(self) -> anyhow::Result<Settings> {
        let flags = [("CHORUS_DATA", self.data), ("CHORUS_DATABASE_URL", self.database)];
        let flags: Layer =
            flags.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
        let loaded = settings::environment().and_then(|environment| Settings::load(&[flags, environment]));
        loaded.map_err(|faults| {
            Explained::failed(faults.to_string(), "`chorus serve --help` lists every setting").into()
        })
    }

    /// Opens the database, which must exist.
    pub(super) fn open(self) -> anyhow::Result<Store> {
        let settings = self.load()?;
        let database = settings.data.join("chorus.db");
        if settings.database_url.is_none() && !database.exists() {
            return Err(no_database(&database));
        }
        Ok(Place::of(&settings, Environment::system().uuid_v4()).unhurried().open()?)
    }
}

/// Copy the database of a hub, also while it runs
///
/// The copy is a consistent snapshot and can replace the database. Keep master.key, or CHORUS_MASTER_KEY,
/// apart from it: its secrets cannot be read without that key. Use pg_dump for a hub on PostgreSQL.
#[derive(clap::Args)]
#[command(after_help = BACKUP_EXAMPLES)]
pub(crate) struct BackupArgs {
    #[command(flatten)]
    which: Which,
    /// The copy, a new file; its folder is created if necessary
    #[arg(value_name = "FILE")]
    to: PathBuf,
}

pub(crate) fn backup(global: &Global, args: BackupArgs) -> anyhow::Result<ExitCode> {
    let settings = args.which.load()?;
    if settings.database_url.is_some() {
        let hint = "use pg_dump, or `chorus export`";
        return Err(Explained::failed("a hub on PostgreSQL has no file to copy", hint).into());
    }
    let database = settings.data.join("chorus.db");
    if !database.exists() {
        return Err(no_database(&database));
    }
    if let Some(folder) = args.to.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists())
    {
        prepare_folder(folder)?;
    }
    chorus_store::backup(&database, &args.to)?;
    if global.json {
        output::json(&json!({"file": args.to, "copy_of": database}))?;
    } else {
        output::talk(format_args!("{} is a copy of {}", args.to.display(), database.display()));
    }
    Ok(ExitCode::SUCCESS)
}

fn no_database(path: &Path) -> anyhow::Error {
    let hint = "name the folder of the hub with --data, or its database with --database";
    Explained::failed(format!("there is no database {}", path.display()), hint).into()
}

/// Write all data of a hub to a file, for `chorus import`
///
/// From SQLite or PostgreSQL, as a consistent snapshot. A hub on SQLite must be stopped; or export a copy of
/// it: `chorus backup copy/chorus.db`, then `--data copy`. The file contains all messages: protect it like the
/// database.
#[derive(clap::Args)]
#[command(after_help = EXPORT_EXAMPLES)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    which: Which,
    /// The file, a new one
    #[arg(value_name = "FILE")]
    to: PathBuf,
}

pub(crate) async fn export(global: &Global, args: ExportArgs) -> anyhow::Result<ExitCode> {
    let (store, environment) = (args.which.open()?, Environment::system());
    let (id, path) = (environment.random_hex(), args.to.clone());
    let told = || format!("cannot write {}", args.to.display());
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).with_context(told)?;
    let work = move |tx: &mut dyn Tx| {
        // The file is truncated, in case the transaction runs again.
        let mut file = BufWriter::new(OpenOptions::new().write(true).truncate(true).open(&path)?);
        let rows = transfer::export(tx, &id, &mut file, &|table, rows| {
            output::talk(format_args!("{table}: {rows} rows"));
        })?;
        file.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_all()?;
        Ok(rows)
    };
    let exported = store.read::<_, TransferError, _>(work).await;
    if exported.is_err() {
        // A partial export is useless. If it cannot be removed, the next try reports it.
        std::fs::remove_file(&args.to).ok();
    }
    let rows = exported.with_context(told)?;
    if global.json {
        output::json(&json!({"file": args.to, "rows": rows}))?;
        return Ok(ExitCode::SUCCESS);
    }
    output::talk(format_args!(
        "{} holds {rows} rows. The other hub needs the same master key to read the secrets among them.",
        args.to.display()
    ));
    Ok(ExitCode::SUCCESS)
}

/// Read a file of `chorus export` into an empty database
///
/// The database may be SQLite or PostgreSQL, regardless of the source. Ids, keys and positions stay the same,
/// so that clients continue. After an interruption run it again: it continues. Give the new hub the old one's
/// master key (master.key in its folder, or CHORUS_MASTER_KEY).
#[derive(clap::Args)]
#[command(after_help = IMPORT_EXAMPLES)]
pub(crate) struct ImportArgs {
    #[command(flatten)]
    which: Which,
    /// The file written by `chorus export`
    #[arg(value_name = "FILE")]
    from: PathBuf,
}

pub(crate) async fn import(global: &Global, args: ImportArgs) -> anyhow::Result<ExitCode> {
    let settings = args.which.load()?;
    let told = || format!("cannot import {}", args.from.display());
    let file = File::open(&args.from).with_context(told)?;
    let mut import = Import::open(BufReader::new(file)).with_context(told)?;
    if settings.database_url.is_none() {
        prepare_folder(&settings.data)?;
    }
    let store = Place::of(&settings, Environment::system().uuid_v4()).open()?;
    let rows = fill(&store, &mut import).await.with_context(told)?;
    if global.json {
        output::json(&json!({"file": args.from, "rows": rows}))?;
        return Ok(ExitCode::SUCCESS);
    }
    output::talk(format_args!(
        "imported {rows} rows; messages are found by their words again once the hub has indexed them"
    ));
    Ok(ExitCode::SUCCESS)
}

async fn fill(store: &Store, import: &mut Import<BufReader<File>>) -> Result<u64, TransferError> {
    let id = import.id().to_owned();
    let prepare = {
        let id = id.clone();
        move |tx: &mut dyn Tx| transfer::prepare(tx, &id)
    };
    let (tables, begun) = store.write(prepare).await?;
    import.begin(tables, begun)?;
    if begun > 0 {
        output::talk(format_args!("going on after line {begun}"));
    }
    let mut steps = 0_u64;
    while let Some(step) = import.next_step()? {
        let id = id.clone();
        store.write::<_, TransferError, _>(move |tx: &mut dyn Tx| transfer::write(tx, &id, &step)).await?;
        steps += 1;
        if steps.is_multiple_of(10) {
            output::talk(format_args!("{} rows", import.rows()));
        }
    }
    Ok(import.rows())
}
