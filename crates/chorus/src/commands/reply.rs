//! `chorus reply`: streams standard input as the answer to a message whose sender is listening.

use crate::global::Global;
use crate::output;
use serde_json::json;
use std::io::Read;
use std::process::ExitCode;
use tokio::sync::mpsc;

const EXAMPLES: &str = "\
Examples:
  my-model < prompt | chorus reply \"$REPLY_STREAM\"
                                        the address comes with the message:
                                        chorus inbox --json | jq -r .reply_stream";

/// The size of one read, in bytes.
const PIECE: usize = 16 * 1024;

/// Answer a message with standard input, streamed as it comes
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The message's `reply_stream` URL, which works once
    #[arg(value_name = "REPLY_STREAM")]
    url: String,
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    let (pieces, output) = mpsc::channel(1);
    // Standard input blocks, so a separate thread reads it, which ends with the program.
    std::thread::spawn(move || read(std::io::stdin().lock(), &pieces));
    chorus_agent::reply(&args.url, output).await?;
    if global.json {
        output::json(&json!({"status": "ok"}))?;
    } else {
        output::talk("the sender has it all");
    }
    Ok(ExitCode::SUCCESS)
}

/// Sends the input in pieces, cut between characters, until it ends or the receiver is dropped.
fn read(mut input: impl Read, pieces: &mpsc::Sender<String>) {
    let (mut kept, mut buffer) = (Vec::new(), vec![0; PIECE]);
    while let Ok(count) = input.read(&mut buffer) {
        kept.extend_from_slice(&buffer[..count]);
        let whole = match std::str::from_utf8(&kept) {
            Err(error) if error.error_len().is_none() && count > 0 => error.valid_up_to(),
            _ => kept.len(),
        };
        let rest = kept.split_off(whole);
        let piece = String::from_utf8_lossy(&std::mem::replace(&mut kept, rest)).into_owned();
        let taken = piece.is_empty() || pieces.blocking_send(piece).is_ok();
        if count == 0 || !taken {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns one byte at a time.
    struct Dripping<'a>(&'a [u8]);

    impl Read for Dripping<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let count = self.0.len().min(1);
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    #[test]
    fn characters_are_not_cut() {
        let (pieces, mut output) = mpsc::channel(100);
        read(Dripping("a\u{e9}\u{5b57}".as_bytes()), &pieces);
        read(Dripping(b"\xe5"), &pieces);
        drop(pieces);
        let mut said = vec![];
        while let Some(piece) = output.blocking_recv() {
            said.push(piece);
        }
        assert_eq!(said, ["a", "\u{e9}", "\u{5b57}", "\u{fffd}"]);
    }
}
