//! `chorus serve`: turns settings into a configuration, a store and a listener, and runs the hub until a
//! signal.
//!
//! Standard output gets exactly one line, when the hub is ready; everything else goes to standard error.

use crate::failure::Explained;
use crate::global::Global;
use crate::output;
use crate::settings::{self, FormerKey, Layer, LogFormat, Settings};
use anyhow::Context;
use chorus_hub::{
    Config, Environment, FINGERPRINT, FingerprintError, MasterKey, check_fingerprint, keep_fingerprint,
    keep_operator_key, key_hash,
};
use chorus_protocol::credentials::SecretKind;
use chorus_protocol::faults::Faults;
use chorus_store::transfer::IMPORTING;
use chorus_store::{PostgresOptions, SqliteOptions, Store, StoreError, Tx, settings as store_settings};
use std::fs;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::filter::LevelFilter;
use uuid::Uuid;

const EXAMPLES: &str = "\
Examples:
  chorus serve                                                  a hub for this machine, on SQLite
  chorus serve --listen 0.0.0.0:8787 --public-url https://hub.example
  CHORUS_MASTER_KEY=… chorus serve --database postgres://chorus@db/chorus
  CHORUS_ALLOW_PRIVATE_ENDPOINTS=10.0.0.0/8 chorus serve        webhooks inside a company
";

fn after_help() -> String {
    format!("{EXAMPLES}\n{}", settings::help())
}

/// Run the hub
///
/// It is ready when it prints `chorus listening on http://HOST:PORT`. SIGTERM or Ctrl-C lets open requests
/// finish and ends it; a second one ends it at once.
#[derive(clap::Args)]
#[command(after_help = after_help())]
pub(crate) struct Args {
    /// The address to listen on; port 0 picks a free port [env: CHORUS_LISTEN] [default: 127.0.0.1:8787]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// The folder of the database and of the hub's keys [env: CHORUS_DATA] [default: ./chorus-data]
    #[arg(long, value_name = "FOLDER")]
    data: Option<String>,
    /// postgres://… instead of SQLite [env: CHORUS_DATABASE_URL]
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// The URL at which people and agents reach this hub [env: CHORUS_PUBLIC_URL]
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// A settings file, in TOML
    #[arg(long, value_name = "FILE", env = "CHORUS_CONFIG")]
    config: Option<PathBuf>,
}

impl Args {
    fn load(self) -> anyhow::Result<Settings> {
        let flags = [
            ("CHORUS_LISTEN", self.listen),
            ("CHORUS_DATA", self.data),
            ("CHORUS_DATABASE_URL", self.database),
            ("CHORUS_PUBLIC_URL", self.public_url),
        ];
        let flags: Layer =
            flags.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
        let explain = |faults: Faults| {
            Explained::failed(faults.to_string(), "`chorus serve --help` lists every setting")
        };
        let environment = settings::environment().map_err(explain)?;
        for name in settings::unknown(&environment, &crate::variables()) {
            output::talk(format_args!(
                "warning: {} is set, and there is no such setting: it changes nothing; `chorus serve --help` lists them",
                output::one_line(name)
            ));
        }
        let mut layers = vec![flags, environment];
        if let Some(path) = self.config {
            let text =
                fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            layers.push(
                settings::file(&text)
                    .with_context(|| format!("{} is not a settings file", path.display()))?,
            );
        }
        Ok(Settings::load(&layers).map_err(explain)?)
    }
}

pub(crate) async fn run(_global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    let settings = args.load()?;
    start_log(&settings);
    serve(settings, |_| {}).await
}

/// A hub that accepts connections.
pub(super) struct Listening {
    /// The URL as seen from this machine.
    pub(super) url: String,
    /// The sign-in link of the operator. `None` unless the database is new.
    pub(super) link: Option<String>,
}

/// Runs a hub until a signal. Calls `listening` once, when it accepts connections.
pub(super) async fn serve(settings: Settings, listening: impl FnOnce(Listening)) -> anyhow::Result<ExitCode> {
    let environment = Environment::system();
    let listener = TcpListener::bind(&settings.listen).await.map_err(|error| {
        let what = format!("cannot listen on {}: {error}", settings.listen);
        Explained::failed(what, "choose another address with --listen, or port 0 for any free one")
    })?;
    let address = listener.local_addr()?;
    prepare_folder(&settings.data)?;
    let master = master_key(&settings, &environment)?;

    let node = environment.uuid_v4();
    let lost = settings.former_key == FormerKey::Lost;
    if !lost {
        // The key is checked before anything is opened for writing or migrated.
        let held = Place::of(&settings, node).peek(FINGERPRINT)?;
        check_fingerprint(&master, held.as_deref()).map_err(|error| explain_key(&settings, error))?;
    }
    let store = Place::of(&settings, node).open()?;
    refuse_half(&store).await?;
    let kept = keep_fingerprint(&store, &master, &environment, lost).await;
    kept.map_err(|error| explain_key(&settings, error))?;
    if lost {
        tracing::warn!(
            "CHORUS_MASTER_KEY_PREVIOUS=lost: any master key is taken for the right one; take it away again"
        );
    }
    let operator = operator_key(&settings, &store, &environment).await?;
    let here = format!("http://{}", reachable(address));
    let url = settings
        .public_url
        .as_ref()
        .map_or_else(|| here.clone(), |url| url.as_str().trim_end_matches('/').to_owned());
    let mut config = config(&settings, node, operator, master, url);
    config.any_host = settings.public_url.is_none() && !address.ip().to_canonical().is_loopback();
    let link = chorus_hub::first_link(&store, &config, &environment).await?;
    if let Some(link) = &link {
        output::talk(format_args!("sign in: {link}"));
    }
    if config.any_host {
        output::talk(format_args!(
            "warning: this hub listens on {address}, where other machines may reach it, and does not know by which name. \
             It answers to any, so that web pages can reach it by theirs; and links that it gives out, the one for signing in \
             too, begin with {here}, which may lead nowhere elsewhere. Set --public-url to where others reach it, or \
             listen on 127.0.0.1."
        ));
    }

    // From here on a signal drains open requests. Before, it just ends the program.
    let (terminate, interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    output::data(format_args!("chorus listening on {here}"))?;
    listening(Listening { url: here, link });
    chorus_hub::run(listener, store, config, environment, stop(terminate, interrupt)).await?;
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// Refuses a database with an unfinished import.
async fn refuse_half(store: &Store) -> anyhow::Result<()> {
    let begun = |tx: &mut dyn Tx| store_settings::get(tx, IMPORTING);
    match store.read::<_, StoreError, _>(begun).await? {
        Some(_) => Err(half()),
        None => Ok(()),
    }
}

fn half() -> anyhow::Error {
    let hint = "run the same `chorus import` again: it goes on where it was";
    Explained::failed("an import into this database was begun and is not finished", hint).into()
}

/// Checks whether a hub would start with the database and the key in the data folder. Changes nothing.
pub(super) fn look_at_key(settings: &Settings) -> anyhow::Result<()> {
    let place = Place::of(settings, Uuid::nil());
    let Some(key) = kept_key(settings)? else { return Ok(()) };
    let held = place.peek(FINGERPRINT)?;
    check_fingerprint(&with_former(key, settings), held.as_deref())
        .map_err(|error| explain_key(settings, error))?;
    if place.peek(IMPORTING)?.is_some() {
        return Err(half());
    }
    Ok(())
}

/// Replaces an unspecified address by the loopback address, so that this machine can connect to it.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address
}

pub(super) fn start_log(settings: &Settings) {
    let log = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_max_level(LevelFilter::from(settings.log));
    match settings.log_format {
        LogFormat::Text => log.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
}

/// Waits for the first signal. A second one ends the program at once.
async fn stop(mut terminate: Signal, mut interrupt: Signal) {
    let mut next = async move || {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    next().await;
    tracing::info!("stopping: open requests may finish; a second signal ends at once");
    tokio::spawn(async move {
        next().await;
        std::process::exit(1);
    });
}

/// Creates the data folder, accessible to its owner only.
pub(super) fn prepare_folder(folder: &Path) -> anyhow::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .with_context(|| format!("cannot make the data folder {}", folder.display()))
}

/// Returns the key from which the hub's secrets are derived, with the one it replaces.
fn master_key(settings: &Settings, environment: &Environment) -> anyhow::Result<MasterKey> {
    let key = match kept_key(settings)? {
        Some(key) => key,
        None => new_key(settings, environment)?,
    };
    Ok(with_former(key, settings))
}

fn with_former(key: [u8; 32], settings: &Settings) -> MasterKey {
    let key = MasterKey::new(key);
    match settings.former_key {
        FormerKey::Given(former) => key.replacing(former),
        FormerKey::None | FormerKey::Lost => key,
    }
}

fn key_told(path: &Path) -> String {
    format!("cannot use the master key in {}", path.display())
}

/// Returns the key that was given or is stored in the data folder. `None` for a new hub.
fn kept_key(settings: &Settings) -> anyhow::Result<Option<[u8; 32]>> {
    if settings.master_key.is_some() {
        return Ok(settings.master_key);
    }
    if settings.database_url.is_some() {
        return Err(Explained::failed(
            "with PostgreSQL the master key must be given, the same on all nodes",
            "make one with `openssl rand -hex 32` and set CHORUS_MASTER_KEY",
        )
        .into());
    }
    let path = settings.data.join("master.key");
    let told = || key_told(&path);
    match fs::read_to_string(&path) {
        Ok(text) => {
            let mode = fs::metadata(&path).with_context(told)?.permissions().mode();
            if mode & 0o077 != 0 {
                return Err(Explained::failed(
                    format!("{} can be read by others", path.display()),
                    "it must be yours alone: chmod 600 it, and think about who may have seen it",
                )
                .into());
            }
            settings::master_key(&text).context("it is not 64 hex digits").with_context(told).map(Some)
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let database = settings.data.join("chorus.db");
            // A new key could not decrypt the secrets of an old database.
            if database.exists() && settings.former_key != FormerKey::Lost {
                return Err(Explained::failed(
                    format!("{} is missing, and {} was made with it", path.display(), database.display()),
                    "restore it from a backup, or set CHORUS_MASTER_KEY if that is where the key was; if it is gone for good, CHORUS_MASTER_KEY_PREVIOUS=lost makes a new one, and agents' connection strings must be set again",
                )
                .into());
            }
            Ok(None)
        }
        Err(error) => Err(error).with_context(told),
    }
}

/// Creates the key of a new hub and stores it in the data folder.
fn new_key(settings: &Settings, environment: &Environment) -> anyhow::Result<[u8; 32]> {
    let path = settings.data.join("master.key");
    let told = || key_told(&path);
    let text = format!("{}{}", environment.random_hex(), environment.random_hex());
    let mut file =
        fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).with_context(told)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).with_context(told)?;
    settings::master_key(&text).with_context(told)
}

/// Adds advice to the error for a wrong key.
fn explain_key(settings: &Settings, error: FingerprintError) -> anyhow::Error {
    let from = match settings.master_key {
        Some(_) => "CHORUS_MASTER_KEY".to_owned(),
        None => settings.data.join("master.key").display().to_string(),
    };
    match error {
        FingerprintError::OtherKey => Explained::failed(
            format!("{error}, not with the one in {from}; nothing was changed"),
            "restore the old key, or set CHORUS_MASTER_KEY_PREVIOUS to it to replace it by this one",
        )
        .into(),
        FingerprintError::Store(error) => error.into(),
    }
}

/// The database of the hub.
pub(super) enum Place {
    Sqlite(SqliteOptions),
    Postgres(PostgresOptions),
}

impl Place {
    pub(super) fn of(settings: &Settings, node: Uuid) -> Self {
        match &settings.database_url {
            Some(url) => Self::Postgres(PostgresOptions::new(url, node)),
            None => Self::Sqlite(SqliteOptions {
                durability: settings.durability,
                ..SqliteOptions::file(settings.data.join("chorus.db"))
            }),
        }
    }

    fn peek(&self, name: &str) -> Result<Option<String>, StoreError> {
        match self {
            Self::Sqlite(options) => options.peek(name),
            Self::Postgres(options) => options.peek(name),
        }
    }

    /// Raises the time limit of reads to 24 hours, for exports and repairs.
    pub(super) fn unhurried(self) -> Self {
        let long = std::time::Duration::from_hours(24);
        match self {
            Self::Sqlite(options) => Self::Sqlite(SqliteOptions { read_time: long, ..options }),
            Self::Postgres(options) => Self::Postgres(PostgresOptions { read_time: long, ..options }),
        }
    }

    pub(super) fn open(self) -> Result<Store, StoreError> {
        match self {
            Self::Sqlite(options) => Store::sqlite(options),
            Self::Postgres(options) => Store::postgres(options),
        }
    }
}

/// Returns the hash of the operator's key: the given one, the stored one, or that of a new key, which is
/// printed once.
async fn operator_key(
    settings: &Settings,
    store: &Store,
    environment: &Environment,
) -> anyhow::Result<[u8; 32]> {
    if let Some(key) = settings.operator_key {
        return Ok(key);
    }
    let key = SecretKind::OperatorKey.secret(&environment.random_hex());
    let (kept, new) = keep_operator_key(store, &key).await?;
    if new {
        output::talk(format_args!("operator key (shown this once, keep it): {key}"));
        return Ok(key_hash(&key));
    }
    settings::master_key(&kept).context("the operator key in the database is damaged")
}

fn config(
    settings: &Settings,
    node: Uuid,
    operator_key: [u8; 32],
    master_key: MasterKey,
    public_url: String,
) -> Config {
    let public_host = settings.public_url.as_ref().and_then(|url| url.host_str()).map(str::to_owned);
    let host_name = settings.host_name.clone().or(public_host).unwrap_or_else(|| "localhost".into());
    Config {
        public_url,
        allowed_hosts: settings.allowed_hosts.clone(),
        outbound: settings.outbound.clone(),
        endpoint_challenge: settings.endpoint_challenge,
        anonymous_scores: settings.anonymous_scores,
        rate_limit: settings.rate_limit,
        rate_limit_anonymous: settings.rate_limit_anonymous,
        quotas: settings.quotas.clone(),
        trusted_proxies: settings.trusted_proxies.clone(),
        webhook_timeout: settings.webhook_timeout,
        presence: settings.presence,
        retention: settings.retention,
        market_grant: settings.market_grant,
        durability: settings.durability,
        signup: settings.signup,
        mail: settings.mail.clone(),
        max_connections: settings.max_connections,
        ..Config::new(node, host_name, operator_key, master_key)
    }
}
