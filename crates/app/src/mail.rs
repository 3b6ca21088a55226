//! Mail to people: into the log, into a folder, or to a server.
//!
//! Whatever ends in a mail is done after the request was answered, so that neither the answer nor the time it takes
//! tells whether there is somebody to write to. How much of it may go on at a time is bounded, and so is how much there is
//! in an hour: no mail is sent without a [`Slot`].

use crate::app::App;
use crate::error::Error;
use crate::mail_limits::{Asker, MailLimits};
use chorus_protocol::relay::Code;
use lettre::message::Mailbox;
use lettre::transport::smtp::extension::ClientId;
use lettre::{Address, AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use std::error::Error as StdError;
use std::fmt;
use std::fs;
use std::io::Write;
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use url::{Host, Url};

/// How much that ends in a mail may go on at a time.
const MOST_AT_ONCE: usize = 64;
/// How long a server may take to accept a mail.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest address, in characters.
pub const MAX_ADDRESS: usize = 254;

/// Where mail goes.
#[derive(Clone, PartialEq, Eq)]
pub enum Mail {
    /// Into the log, links and all.
    Log,
    /// One file a mail.
    Folder(PathBuf),
    /// To a server.
    Server(Url),
}

impl Mail {
    /// What can be told.
    pub const FORM: &str = "log, dir:PATH, smtp://[USER:PASSWORD@]HOST[:PORT] or smtps://…, with ?from=ADDRESS if you like, and \
         tls=required, tls=opportunistic or tls=off";

    /// Reads a setting. A server is spoken to with TLS, or nothing is sent, unless it is near; `tls=required`,
    /// `tls=opportunistic` or `tls=off` in the address decides otherwise. Certificates are verified in any case.
    pub fn parse(text: &str) -> Option<Self> {
        if text == "log" {
            return Some(Self::Log);
        }
        if let Some(path) = text.strip_prefix("dir:") {
            return (!path.is_empty()).then(|| Self::Folder(path.into()));
        }
        let mut url = Url::parse(text).ok()?;
        let known = matches!(url.scheme(), "smtp" | "smtps") && url.has_host();
        if !known || sender(&url).is_some_and(|from| from.parse::<Address>().is_err()) {
            return None;
        }
        let says = url.query_pairs().find(|(name, _)| name == "tls").map(|(_, tls)| tls.into_owned());
        match says.as_deref() {
            Some("required" | "opportunistic") => {}
            // What the client takes the absence of the word for.
            Some("off") if url.scheme() == "smtp" => {
                let kept: Vec<_> = url.query_pairs().into_owned().filter(|(name, _)| name != "tls").collect();
                url.set_query(None);
                if !kept.is_empty() {
                    url.query_pairs_mut().extend_pairs(kept);
                }
            }
            Some(_) => return None,
            None if url.scheme() == "smtp" && !is_near(&url) => {
                url.query_pairs_mut().append_pair("tls", "required");
            }
            None => {}
        }
        Some(Self::Server(url))
    }
}

impl fmt::Debug for Mail {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Log => f.write_str("log"),
            Self::Folder(path) => write!(f, "dir:{}", path.display()),
            Self::Server(url) => write!(f, "{}://{}", url.scheme(), url.host_str().unwrap_or_default()),
        }
    }
}

/// The address that mails come from, if the server's address says.
fn sender(url: &Url) -> Option<String> {
    url.query_pairs().find(|(name, _)| name == "from").map(|(_, from)| from.into_owned())
}

/// Whether the server is on this machine or has an address of a private network. A name could be anybody's.
fn is_near(url: &Url) -> bool {
    let near = |address: IpAddr| match address.to_canonical() {
        IpAddr::V4(address) => address.is_loopback() || address.is_private() || address.is_link_local(),
        IpAddr::V6(address) => {
            address.is_loopback() || address.is_unique_local() || address.is_unicast_link_local()
        }
    };
    // Not a scheme the parser knows, so an IPv4 address comes as a name.
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.parse().is_ok_and(near),
        Some(Host::Ipv4(address)) => near(address.into()),
        Some(Host::Ipv6(address)) => near(address.into()),
        None => false,
    }
}

/// What is wrong with an address, as far as can be told without writing to it.
pub fn check_address(text: &str) -> Result<(), &'static str> {
    if text.chars().count() > MAX_ADDRESS {
        return Err("must be at most 254 characters");
    }
    let plain = !text.chars().any(|c| c.is_whitespace() || c.is_control());
    match text.split_once('@') {
        Some((local, host)) if plain && !local.is_empty() && !host.is_empty() && !host.contains('@') => {
            Ok(())
        }
        _ => Err("must be an email address: name@host, without spaces"),
    }
}

/// A mail.
pub struct Letter {
    pub to: String,
    pub subject: String,
    pub text: String,
}

/// Sends mails.
pub struct Mailer {
    slots: Arc<Semaphore>,
    /// For what the hub itself has to tell, whatever strangers ask for.
    own_slots: Arc<Semaphore>,
    limits: Option<MailLimits>,
}

/// The right to send one mail.
pub struct Slot(#[expect(dead_code, reason = "it is held")] OwnedSemaphorePermit);

impl Mailer {
    pub fn new(limits: Option<MailLimits>) -> Self {
        let slots = || Arc::new(Semaphore::new(MOST_AT_ONCE));
        Self { slots: slots(), own_slots: slots(), limits }
    }
}

/// Room for a mail that is sent to this address in any case; nothing if it is past a limit.
pub fn slot(app: &App, to: &str, asker: Asker) -> Result<Option<Slot>, Error> {
    Ok(room(app, to, asker)?.filter(|_| count(app, to, asker)))
}

/// Room for what may end in a mail to this address, which must be [counted](count) when it does; nothing if it is past a
/// limit. Who asked for it is not told: it would tell him what others asked for.
pub fn room(app: &App, to: &str, asker: Asker) -> Result<Option<Slot>, Error> {
    if !within(app, |limits| limits.ask(to, asker, app.elapsed())) {
        return Ok(None);
    }
    let slots = match asker {
        Asker::Source(_) => &app.mailer.slots,
        Asker::Hub(_) => &app.mailer.own_slots,
    };
    let slot = Arc::clone(slots).try_acquire_owned().map_err(|_| {
        Error::new(Code::Overloaded, "too many mails are on their way; try again in a moment")
            .retry_after_ms(1000)
    });
    slot.map(|slot| Some(Slot(slot)))
}

/// Counts a mail that is about to be sent to this address, and says whether it may be.
pub fn count(app: &App, to: &str, asker: Asker) -> bool {
    within(app, |limits| limits.take(to, asker, app.elapsed()))
}

fn within(app: &App, take: impl FnOnce(&MailLimits) -> Result<(), &'static str>) -> bool {
    let taken = app.mailer.limits.as_ref().map_or(Ok(()), take);
    if let Err(limit) = taken {
        app.metrics.mails_dropped.inc();
        tracing::warn!(limit, "a mail was not sent: there were too many in the last hour");
    }
    taken.is_ok()
}

/// Sends a mail. Whoever it is for cannot be told if that fails, the operator can; neither is told what was in it.
pub async fn send(app: &App, letter: Letter, _: Slot) {
    if app.config.mail == Mail::Log {
        let text = letter.text.replace('\n', " ");
        tracing::info!(to = letter.to, subject = letter.subject, "mail: {text}");
        return;
    }
    let sent = tokio::time::timeout(PATIENCE, deliver(app, letter)).await;
    match sent.unwrap_or_else(|_| Err("it took too long".into())) {
        Ok(()) => tracing::debug!("a mail was sent"),
        Err(error) => {
            tracing::warn!(error = &*error as &dyn StdError, way = ?app.config.mail, "a mail could not be sent");
        }
    }
}

async fn deliver(app: &App, letter: Letter) -> Result<(), Box<dyn StdError + Send + Sync>> {
    let message = message(app, letter)?;
    match &app.config.mail {
        Mail::Log => Ok(()),
        Mail::Folder(folder) => {
            let name = format!("{:013}-{}.eml", app.now(), app.environment.random_hex());
            let (folder, bytes) = (folder.clone(), message.formatted());
            Ok(tokio::task::spawn_blocking(move || put(&folder, &name, &bytes)).await??)
        }
        Mail::Server(url) => {
            let server = AsyncSmtpTransport::<Tokio1Executor>::from_url(url.as_str())?
                .hello_name(ClientId::Domain(host(app).to_owned()))
                .timeout(Some(PATIENCE))
                .build();
            server.send(message).await?;
            Ok(())
        }
    }
}

/// The host of our addresses, without a port.
fn host(app: &App) -> &str {
    app.config.host_name.split(':').next().unwrap_or_default()
}

fn message(app: &App, letter: Letter) -> Result<Message, Box<dyn StdError + Send + Sync>> {
    let from = match &app.config.mail {
        Mail::Server(url) => sender(url),
        Mail::Log | Mail::Folder(_) => None,
    };
    let from = from.unwrap_or_else(|| format!("chorus@{}", host(app)));
    let date = SystemTime::UNIX_EPOCH + Duration::from_millis(app.now().max(0) as u64);
    let id = format!("<{}@{}>", app.environment.uuid_v4().simple(), host(app));
    let message = Message::builder()
        .from(Mailbox::new(Some("Chorus".into()), from.parse()?))
        .to(Mailbox::new(None, letter.to.parse()?))
        .subject(letter.subject)
        .date(date)
        .message_id(Some(id));
    Ok(message.body(letter.text)?)
}

/// Writes a file that is whole when it gets its name, and for nobody else's eyes.
fn put(folder: &Path, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let part = folder.join(format!(".{name}.part"));
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
    file.write_all(bytes)?;
    drop(file);
    fs::rename(part, folder.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked_simply() {
        for good in ["a@b", "Ann.Lee+x@mail.example", "用户@例子.测试", &format!("{}@b", "a".repeat(252))]
        {
            assert_eq!(check_address(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "a",
            "@b",
            "a@",
            "a@b@c",
            "a b@c",
            "a@b\r\nBcc: x@y",
            "a@b\u{a0}",
            &format!("{}@b", "a".repeat(253)),
        ] {
            assert!(check_address(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn where_mail_goes() {
        assert_eq!(Mail::parse("log"), Some(Mail::Log));
        assert_eq!(Mail::parse("dir:/var/mail"), Some(Mail::Folder("/var/mail".into())));
        for wrong in [
            "",
            "dir:",
            "maybe",
            "http://a.example",
            "smtp:",
            "smtp://a.example?from=nobody",
            "smtps://",
            "smtp://a.example?tls=no",
            "smtps://a.example?tls=off",
        ] {
            assert_eq!(Mail::parse(wrong), None, "{wrong}");
        }
        for (text, kept) in [
            ("smtp://127.0.0.1:2525", "smtp://127.0.0.1:2525"),
            ("smtp://u:p@localhost", "smtp://u:p@localhost"),
            ("smtp://10.0.0.1", "smtp://10.0.0.1"),
            ("smtp://[fd00::1]:25", "smtp://[fd00::1]:25"),
            ("smtp://[::1]", "smtp://[::1]"),
            ("smtp://192.0.2.1", "smtp://192.0.2.1?tls=required"),
            ("smtp://mail.example", "smtp://mail.example?tls=required"),
            ("smtp://127.0.0.1?tls=required", "smtp://127.0.0.1?tls=required"),
            ("smtp://mail.example?tls=opportunistic", "smtp://mail.example?tls=opportunistic"),
            ("smtp://mail.example?tls=off", "smtp://mail.example"),
            ("smtp://mail.example?tls=off&from=a@b.example", "smtp://mail.example?from=a%40b.example"),
            ("smtp://u:p@mail.example:587", "smtp://u:p@mail.example:587?tls=required"),
            (
                "smtp://u:p@mail.example?from=hub@a.example",
                "smtp://u:p@mail.example?from=hub@a.example&tls=required",
            ),
            ("smtps://u:p@mail.example", "smtps://u:p@mail.example"),
        ] {
            let Some(Mail::Server(url)) = Mail::parse(text) else { panic!("{text}") };
            assert_eq!(url.as_str(), kept);
        }
    }

    #[test]
    fn a_password_is_not_shown() {
        let mail = Mail::parse("smtps://ann:secret@mail.example").unwrap();
        assert_eq!(format!("{mail:?}"), "smtps://mail.example");
    }
}
