//! Mail to people: into the log, into a folder, or to a server.
//!
//! Whatever ends in a mail is done after the request was answered, so that neither the answer nor the time it takes
//! tells whether there is somebody to write to. How much of it may go on at a time is bounded, and so is how much there is
//! in an hour: no mail is sent without a [`Slot`].

use crate::config::Config;
use crate::error::Error;
use crate::mail::{Mail, sender};
use crate::mail_limits::{Asker, MailLimits};
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
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How much that ends in a mail may go on at a time.
const MOST_AT_ONCE: usize = 64;
/// How long a server may take to accept a mail.
const PATIENCE: Duration = Duration::from_secs(30);

/// A mail.
pub struct Letter {
    pub to: String,
    pub subject: String,
    pub text: String,
}

/// Sends mails.
pub struct Mailer {
    mail: Mail,
    /// The host of our addresses, without a port.
    host: String,
    environment: Environment,
    slots: Arc<Semaphore>,
    /// For what the hub itself has to tell, whatever strangers ask for.
    own_slots: Arc<Semaphore>,
    limits: Option<MailLimits>,
    /// How many were not sent for their number.
    dropped: Counter,
}

/// The right to send one mail.
pub struct Slot(#[expect(dead_code, reason = "it is held")] OwnedSemaphorePermit);

impl Mailer {
    pub fn new(config: &Config, environment: Environment, dropped: Counter) -> Self {
        let slots = || Arc::new(Semaphore::new(MOST_AT_ONCE));
        Self {
            mail: config.mail.clone(),
            host: config.host_name.split(':').next().unwrap_or_default().to_owned(),
            environment,
            slots: slots(),
            own_slots: slots(),
            limits: config.rate_limit.map(|_| MailLimits::new(&config.quotas)),
            dropped,
        }
    }

    /// Room for a mail that is sent to this address in any case; nothing if it is past a limit.
    pub fn slot(&self, to: &str, asker: Asker) -> Result<Option<Slot>, Error> {
        Ok(self.room(to, asker)?.filter(|_| self.count(to, asker)))
    }

    /// Room for what may end in a mail to this address, which must be [counted](Self::count) when it does; nothing if it is
    /// past a limit. Who asked for it is not told: it would tell him what others asked for.
    pub fn room(&self, to: &str, asker: Asker) -> Result<Option<Slot>, Error> {
        if !self.within(|limits| limits.ask(to, asker, self.environment.elapsed())) {
            return Ok(None);
        }
        let slots = match asker {
            Asker::Source(_) => &self.slots,
            Asker::Hub(_) => &self.own_slots,
        };
        let slot = Arc::clone(slots).try_acquire_owned().map_err(|_| {
            Error::new(Code::Overloaded, "too many mails are on their way; try again in a moment")
                .retry_after_ms(1000)
        });
        slot.map(|slot| Some(Slot(slot)))
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

    /// Sends a mail. Whoever it is for cannot be told if that fails, the operator can; neither is told what was in it.
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

/// Writes a file that is whole when it gets its name, and for nobody else's eyes.
fn put(folder: &Path, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let part = folder.join(format!(".{name}.part"));
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
    file.write_all(bytes)?;
    drop(file);
    fs::rename(part, folder.join(name))
}
