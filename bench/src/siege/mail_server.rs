//! A mail server for the siege. It accepts mails to honest people at once, and is slow with all others.

use anyhow::Context;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// The domain whose mails are accepted at once.
pub(super) const HONEST_DOMAIN: &str = "@honest.example";
/// The time that every other mail takes, which is close to the hub's timeout.
const SLOW: Duration = Duration::from_secs(25);

/// A running server, with the mails it has accepted.
#[derive(Clone)]
pub(super) struct MailServer {
    pub(super) url: String,
    mails: Arc<Mutex<Vec<String>>>,
}

impl MailServer {
    pub(super) async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("no port for a mail server")?;
        let server = Self { url: format!("smtp://{}", listener.local_addr()?), mails: Arc::default() };
        let mails = Arc::clone(&server.mails);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // A client that goes away ends its own session only.
                tokio::spawn(serve(stream, Arc::clone(&mails)));
            }
        });
        Ok(server)
    }

    /// Returns the secret of the sign-in link that was mailed to this address.
    pub(super) fn sign_in_token(&self, email: &str) -> Option<String> {
        let mails = self.mails.lock().unwrap_or_else(PoisonError::into_inner);
        let mail = mails.iter().find(|mail| mail.contains(email))?;
        let from = mail.find("/signin/")? + "/signin/".len();
        Some(mail[from..].chars().take_while(|sign| sign.is_ascii_alphanumeric() || *sign == '_').collect())
    }
}

async fn serve(stream: TcpStream, mails: Arc<Mutex<Vec<String>>>) -> std::io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut lines = BufReader::new(reader).lines();
    writer.write_all(b"220 mail.example\r\n").await?;
    let mut mail: Option<String> = None;
    while let Some(line) = lines.next_line().await? {
        let answer: &[u8] = match (&mut mail, &*line) {
            (Some(text), ".") => {
                mails.lock().unwrap_or_else(PoisonError::into_inner).push(std::mem::take(text));
                mail = None;
                b"250 taken\r\n"
            }
            (Some(text), line) => {
                text.push_str(line);
                text.push('\n');
                continue;
            }
            (None, "DATA") => {
                mail = Some(String::new());
                b"354 go on\r\n"
            }
            (None, "QUIT") => b"221 goodbye\r\n",
            (None, line) => {
                if line.starts_with("RCPT") && !line.contains(HONEST_DOMAIN) {
                    tokio::time::sleep(SLOW).await;
                }
                b"250 ok\r\n"
            }
        };
        writer.write_all(answer).await?;
    }
    Ok(())
}
