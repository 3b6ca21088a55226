//! A disposable real PostgreSQL: one private cluster per test process, one fresh database per test.
//!
//! A shell script runs the server and removes its files when the pipe from the test process breaks, so the
//! cluster ends with the test process even on `kill -9`. The server does not flush to the disk: tests kill
//! processes and never the machine. Missing server binaries fail the test; nothing is skipped.
//!
//! Calls block and work inside and outside of a runtime. The module knows no schema and no migrations.

use crate::authority::Certified;
use postgres::{Client, NoTls};
use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The limit of every wait for the server.
const PATIENCE: Duration = Duration::from_secs(30);
const KEEPER: &str = include_str!("postgres.sh");

static SHARED: OnceLock<Cluster> = OnceLock::new();

/// Creates a fresh database in the cluster of this test process.
pub fn database() -> Database {
    SHARED.get_or_init(own_cluster).database()
}

/// Starts a cluster that no other test uses, for tests that kill it.
pub fn own_cluster() -> Cluster {
    let bin = server_binaries();
    let parent = std::env::temp_dir().canonicalize().expect("there is a directory for temporary files");
    let dir = tempfile::Builder::new().prefix("chorus-pg-").tempdir_in(parent).expect("it is writable");
    // The script has its own process group, so that signals to the group of the tests (^C, a runner's time
    // limit) cannot keep it from cleaning up.
    let keeper = Command::new("sh")
        .args(["-c", KEEPER, "chorus-test-postgres"])
        .args([bin.as_path(), dir.path()])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .expect("sh starts");
    let mut cluster = Cluster { dir: dir.keep(), port: 0, keeper, databases: AtomicU32::new(0) };
    // Another process may take a free port before the server does.
    let started = (0..5).any(|_| {
        cluster.port = free_port();
        cluster.try_start()
    });
    assert!(started, "PostgreSQL does not start:\n{}", cluster.log_tail());
    cluster
}

/// A database that is dropped with this value, even while clients are connected to it.
#[derive(Debug)]
pub struct Database {
    /// The URL to connect to, as a superuser.
    pub url: String,
    pub name: String,
    /// The URL of another database in the same cluster, to observe this one from outside.
    pub admin_url: String,
}

impl Drop for Database {
    fn drop(&mut self) {
        // This fails only if the cluster is down, and then its files are removed anyway.
        execute(&self.admin_url, &format!("DROP DATABASE {} WITH (FORCE)", self.name)).ok();
    }
}

/// A running PostgreSQL; see [`own_cluster`].
#[derive(Debug)]
pub struct Cluster {
    dir: PathBuf,
    port: u16,
    /// The script that stops the server and removes the directory when its input ends.
    keeper: Child,
    databases: AtomicU32,
}

impl Cluster {
    /// Returns the URL to connect to, as a superuser.
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// Creates a fresh database.
    pub fn database(&self) -> Database {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        let (url, admin_url) = (self.url_of(&name), self.url());
        execute(&admin_url, &format!("CREATE DATABASE {name}")).expect("a running cluster makes a database");
        Database { url, name, admin_url }
    }

    /// Returns the port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Enables TLS on the server with this certificate.
    pub fn offer_tls(&self, certified: &Certified) {
        // The server writes the files itself, because it must own them and nobody else may read the key.
        for (name, pem) in [("server.crt", &certified.certificate), ("server.key", &certified.key)] {
            let path = self.dir.join("data").join(name);
            let sql = format!(
                "COPY (SELECT unnest(string_to_array('{}', E'\\n'))) TO PROGRAM 'umask 077; cat > {}'",
                pem.trim(),
                path.display()
            );
            execute(&self.url(), &sql).expect("the server can write its folder");
        }
        execute(&self.url(), "ALTER SYSTEM SET ssl = on").expect("it knows TLS");
        execute(&self.url(), "SELECT pg_reload_conf()").expect("it reads its settings");
        let deadline = Instant::now() + PATIENCE;
        while query(&self.url(), "SHOW ssl").ok().as_deref() != Some("on") {
            self.pause(deadline);
        }
    }

    /// Kills the server with SIGKILL and waits until all its processes have ended. Its data remain.
    pub fn kill9(&self) {
        self.order("kill");
        self.wait_until_idle();
    }

    /// Restarts the server after [`Self::kill9`], on the same data and port.
    pub fn start(&self) {
        let started = (0..5).any(|_| self.try_start());
        assert!(started, "PostgreSQL does not start again:\n{}", self.log_tail());
    }

    /// Starts the server. Returns `false` if it gave up, for example because the port is taken.
    fn try_start(&self) -> bool {
        self.wait_until_idle();
        fs::remove_file(self.idle()).expect("the mark is there and ours to remove");
        self.order(&format!("start {}", self.port));
        let deadline = Instant::now() + PATIENCE;
        while !self.idle().exists() {
            // If another test process took the port, its server answers.
            let answer = query(&self.url(), "SHOW data_directory");
            if answer.is_ok_and(|dir| Path::new(&dir) == self.dir.join("data")) {
                return true;
            }
            self.pause(deadline);
        }
        false
    }

    fn wait_until_idle(&self) {
        let deadline = Instant::now() + PATIENCE;
        while !self.idle().exists() {
            self.pause(deadline);
        }
    }

    fn pause(&self, deadline: Instant) {
        assert!(Instant::now() < deadline, "PostgreSQL took over {PATIENCE:?}:\n{}", self.log_tail());
        thread::sleep(Duration::from_millis(20));
    }

    fn order(&self, order: &str) {
        let mut pipe = self.keeper.stdin.as_ref().expect("it is piped");
        writeln!(pipe, "{order}").expect("the keeper lives as long as the cluster");
    }

    fn idle(&self) -> PathBuf {
        self.dir.join("idle")
    }

    fn url_of(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    fn log_tail(&self) -> String {
        let log = fs::read_to_string(self.dir.join("log")).unwrap_or_else(|error| error.to_string());
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // `wait` closes the pipe first. The server terminates processes of its own that take longer than 5 s.
        self.keeper.wait().ok();
    }
}

/// Finds the directory with `postgres` and `initdb`.
fn server_binaries() -> PathBuf {
    let complete = |dir: &PathBuf| dir.join("postgres").exists() && dir.join("initdb").exists();
    if let Some(dir) = std::env::var_os("CHORUS_TEST_PG_BIN").map(PathBuf::from) {
        assert!(complete(&dir), "CHORUS_TEST_PG_BIN is {}, which has no postgres and initdb", dir.display());
        return dir;
    }
    let configured = Command::new("pg_config").arg("--bindir").output().ok();
    let configured = configured.map(|output| String::from_utf8_lossy(&output.stdout).trim().into());
    configured.filter(complete).or_else(|| newest(Path::new("/usr/lib/postgresql"), complete)).expect(
        "no PostgreSQL server found: install Debian's package `postgresql`, \
         or set CHORUS_TEST_PG_BIN to the directory of `postgres` and `initdb`",
    )
}

/// Returns `<parent>/<highest version>/bin`.
fn newest(parent: &Path, complete: impl Fn(&PathBuf) -> bool) -> Option<PathBuf> {
    let versions = fs::read_dir(parent).ok()?.flatten();
    let versions = versions.filter(|version| complete(&version.path().join("bin")));
    let newest =
        versions.max_by_key(|version| version.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    newest.map(|version| version.path().join("bin"))
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("some port is free");
    listener.local_addr().expect("a bound socket has an address").port()
}

fn execute(url: &str, sql: &str) -> Result<(), postgres::Error> {
    with_client(url, |client| client.batch_execute(sql))
}

fn query(url: &str, sql: &str) -> Result<String, postgres::Error> {
    with_client(url, |client| Ok(client.query_one(sql, &[])?.get(0)))
}

/// Runs the client in its own thread, because it blocks on a runtime and the caller may be inside another one.
fn with_client<T: Send>(
    url: &str,
    work: impl FnOnce(&mut Client) -> Result<T, postgres::Error> + Send,
) -> Result<T, postgres::Error> {
    let run = || {
        let mut config: postgres::Config = url.parse()?;
        work(&mut config.connect_timeout(PATIENCE).connect(NoTls)?)
    };
    thread::scope(|scope| scope.spawn(run).join().expect("the client does not panic"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader};

    fn exists(process: &str) -> bool {
        Path::new("/proc").join(process).exists()
    }

    #[tokio::test]
    async fn databases_are_fresh_and_dropped() {
        let (one, other) = (database(), database());
        let (url, admin_url) = (one.url.clone(), other.admin_url.clone());
        execute(&url, "CREATE TABLE t ()").unwrap();
        execute(&other.url, "CREATE TABLE t ()").unwrap();
        let count = format!("SELECT count(*)::text FROM pg_database WHERE datname = '{}'", one.name);
        assert_eq!(query(&admin_url, &count).unwrap(), "1");
        with_client(&url, |_still_connected| {
            drop(one);
            assert_eq!(query(&admin_url, &count)?, "0");
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn a_killed_cluster_keeps_what_was_committed() {
        let cluster = own_cluster();
        let database = cluster.database();
        execute(&database.url, "CREATE TABLE t AS SELECT 'kept' AS word").unwrap();
        cluster.kill9();
        execute(&database.url, "SELECT 1").unwrap_err();
        cluster.start();
        assert_eq!(query(&database.url, "SELECT word FROM t").unwrap(), "kept");
        cluster.kill9();
        let dir = cluster.dir.clone();
        drop(cluster);
        assert!(!dir.exists());
    }

    /// This test runs itself again in a process that it kills.
    #[test]
    fn nothing_outlives_the_process() {
        const VICTIM: &str = "CHORUS_TESTKIT_VICTIM";
        if std::env::var_os(VICTIM).is_some() {
            let cluster = own_cluster();
            // A surviving child must not hold the pipe to the script open.
            let mut child = Command::new("sleep").arg("30").stdout(Stdio::null()).spawn().unwrap();
            let lock = fs::read_to_string(cluster.dir.join("data/postmaster.pid")).unwrap();
            println!("\nvictim {} {} {}", lock.lines().next().unwrap(), child.id(), cluster.dir.display());
            child.wait().unwrap();
            panic!("it should have been killed");
        }
        let mut victim = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "postgres::tests::nothing_outlives_the_process", "--nocapture"])
            .env(VICTIM, "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines().map(Result::unwrap);
        let line = lines.find(|line| line.starts_with("victim ")).expect("the victim starts");
        victim.kill().unwrap();
        victim.wait().unwrap();
        let [_, server, child, dir] = line.splitn(4, ' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let deadline = Instant::now() + PATIENCE;
        while Path::new(dir).exists() || exists(server) {
            assert!(Instant::now() < deadline, "{dir} or process {server} is left");
            thread::sleep(Duration::from_millis(20));
        }
        assert!(exists(child), "the child outlived the cluster");
        Command::new("kill").arg(child).status().unwrap();
    }
}
