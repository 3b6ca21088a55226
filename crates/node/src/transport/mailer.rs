//! Mail to people: into the log, into a folder, or to a server.
//!
//! A mail is sent after the request was answered, so that neither the answer nor its duration reveals whether
//! there is a recipient. Concurrent mails and mails per hour are bounded: no mail is sent without a [`Slot`].

use crate::config::Config;
use crate::config::mail::{Mail, sender};
use crate::config::quotas::OFF;
use crate::error::Error;
use crate::limits::mail::{Asker, MailLimits};
use crate::limits::shares::{Share, Shares};
use crate::source::Source;
use chorus_environment::Environment;
use chorus_protocol::code::Code;
use lettre::message::Mailbox;
use lettre::transport::smtp::extension::ClientId;
use lettre::{AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use prometheus_client::metrics::counter::Counter;
use std::error::Error as StdError;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The most tasks at a time that may end in a mail. They are shared out by source.
const MOST_AT_ONCE: u64 = 64;
/// The time that a server has to accept a mail.
const PATIENCE: Duration = Duration::from_secs(30);

/// A mail to one recipient.
pub struct Letter {
    pub to: String,
    pub subject: String,
    pub text: String,
}

/// A sender of mails, with its limits.
pub struct Mailer {
    mail: Mail,
    /// The host of our addresses, without a port.
    host: String,
    environment: Environment,
    /// Of sources that ask for mails.
    slots: Arc<Shares<Option<Source>>>,
    /// For the hub's own notices, whatever strangers ask for.
    own_slots: Arc<Shares<Option<Source>>>,
    limits: Option<MailLimits>,
    /// Mails dropped because of a limit.
    dropped: Counter,
}

/// The right to send one mail.
pub struct Slot(#[expect(dead_code, reason = "it is held")] Share<Option<Source>>);

impl Mailer {
    pub fn new(config: &Config, environment: Environment, dropped: Counter) -> Self {
        Self {
            mail: config.mail.clone(),
            host: config.host_name.split(':').next().unwrap_or_default().to_owned(),
            environment,
            slots: match config.rate_limit {
                Some(_) => Shares::new(MOST_AT_ONCE, OFF),
                None => Shares::undivided(MOST_AT_ONCE),
            },
            own_slots: Shares::undivided(MOST_AT_ONCE),
            limits: config.rate_limit.map(|_| MailLimits::new(&config.quotas)),
            dropped,
        }
    }

    /// Room for a mail that is sent to this address in any case; nothing if it is past a limit.
    pub fn slot(&self, to: &str, asker: Asker) -> Result<Option<Slot>, Error> {
        Ok(self.room(to, asker)?.filter(|_| self.count(to, asker)))
    }

    /// Reserves a slot for a possible mail to this address, which must be [counted](Self::count) when it is
    /// sent. Returns `None` beyond a limit. The asker does not learn that, because it would reveal the
    /// requests of others.
    pub fn room(&self, to: &str, asker: Asker) -> Result<Option<Slot>, Error> {
        if !self.within(|limits| limits.ask(to, asker, self.environment.elapsed())) {
            return Ok(None);
        }
        let mut slot = match asker {
            Asker::Source(source) => self.slots.share(Some(source)),
            Asker::Hub(_) => self.own_slots.share(None),
        };
        let taken = slot.resize(1).map_err(|_| {
            Error::new(Code::Overloaded, "too many mails are on their way; try again in a moment")
                .retry_after_ms(1000)
        });
        taken.map(|()| Some(Slot(slot)))
    }

    /// Counts a mail that is about to be sent to this address, and says whether it may be.
    pub fn count(&self, to: &str, asker: Asker) -> bool {
        self.within(|limits| limits.take(to, asker, self.environment.elapsed()))
    }

    fn within(&self, take: impl FnOnce(&MailLimits) -> Result<(), &'static str>) -> bool {
        let taken = self.limits.as_ref().map_or(Ok(()), take);
        if let Err(limit) = taken {
            self.dropped.inc();
            tracing::warn!(limit, "a mail was not sent: there were too many in the last hour");
        }
        taken.is_ok()
    }

    /// Sends a mail. A failure is reported to the operator, without the content, because the recipient cannot
    /// be reached.
    pub async fn send(&self, letter: Letter, _: Slot) {
        if self.mail == Mail::Log {
            let text = letter.text.replace('\n', " ");
            tracing::info!(to = letter.to, subject = letter.subject, "mail: {text}");
            return;
        }
        let sent = tokio::time::timeout(PATIENCE, self.deliver(letter)).await;
        match sent.unwrap_or_else(|_| Err("it took too long".into())) {
            Ok(()) => tracing::debug!("a mail was sent"),
            Err(error) => {
                tracing::warn!(error = &*error as &dyn StdError, way = ?self.mail, "a mail could not be sent");
            }
        }
    }

    async fn deliver(&self, letter: Letter) -> Result<(), Box<dyn StdError + Send + Sync>> {
        let message = self.message(letter)?;
        match &self.mail {
            Mail::Log => Ok(()),
            Mail::Folder(folder) => {
                let name = format!("{:013}-{}.eml", self.environment.now(), self.environment.random_hex());
                let (folder, bytes) = (folder.clone(), message.formatted());
                Ok(tokio::task::spawn_blocking(move || put(&folder, &name, &bytes)).await??)
            }
            Mail::Server(url) => {
                let server = AsyncSmtpTransport::<Tokio1Executor>::from_url(url.as_str())?
                    .hello_name(ClientId::Domain(self.host.clone()))
                    .timeout(Some(PATIENCE))
                    .build();
                server.send(message).await?;
                Ok(())
            }
        }
    }

    fn message(&self, letter: Letter) -> Result<Message, Box<dyn StdError + Send + Sync>> {
        let from = match &self.mail {
            Mail::Server(url) => sender(url),
            Mail::Log | Mail::Folder(_) => None,
        };
        let from = from.unwrap_or_else(|| format!("chorus@{}", self.host));
        let date = SystemTime::UNIX_EPOCH + Duration::from_millis(self.environment.now().max(0) as u64);
        let id = format!("<{}@{}>", self.environment.uuid_v4().simple(), self.host);
        let message = Message::builder()
            .from(Mailbox::new(Some("Chorus".into()), from.parse()?))
            .to(Mailbox::new(None, letter.to.parse()?))
            .subject(letter.subject)
            .date(date)
            .message_id(Some(id));
        Ok(message.body(letter.text)?)
    }
}

/// Writes a file that is complete when it gets its name and readable only by its owner.
fn put(folder: &Path, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let part = folder.join(format!(".{name}.part"));
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
    file.write_all(bytes)?;
    drop(file);
    fs::rename(part, folder.join(name))
}
