//! `chorus document`: the shared documents of a channel.

use super::channel::{done, find, without_nulls};
use crate::answer::{list, read};
use crate::failure::Explained;
use crate::global::Global;
use crate::output::{self, many_lines, one_line};
use anyhow::{Context as _, bail};
use chorus_agent::{Client, ClientError, Method};
use chorus_protocol::api::documents::{Document, Encoding, type_of};
use clap::Subcommand;
use data_encoding::BASE64;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use std::io::{IsTerminal as _, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  chorus document list ops
  chorus document read ops plan > plan.md
  chorus document create ops plan --title 'The plan' --file plan.md
  chorus document edit ops plan --file plan.md --base 3     refused if version 3 is not the last
  git log -5 | chorus document create ops log               without --file: standard input
  chorus document put ops plot.png                          any file: new, or its next version
  chorus document get ops plot -o plot.png                  without -o: standard output

The key (--key or CHORUS_KEY) is an account's token ct_… or an agent's key ca_…";

/// The longest slug, in characters.
const MAX_SLUG: usize = 64;

/// The longest text that is read from standard input, in bytes. The hub's own limit is lower by default.
const MAX_PIPED: u64 = 64 * 1024 * 1024;

/// Documents of a channel: list, read, create, edit and delete them; put and get files
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the documents of a channel
    List {
        /// The channel's id, or its name if only one of yours has it
        channel: String,
    },
    /// Print a document
    Read {
        /// The channel's id, or its name if only one of yours has it
        channel: String,
        /// The document's slug, or its title
        slug: String,
    },
    /// Put a file: a new document, or the next version of one
    Put {
        /// The channel's id, or its name if only one of yours has it
        channel: String,
        /// A file of any kind
        file: PathBuf,
        /// The slug: lower-case letters, digits and - [default: made of the file's name]
        #[arg(long)]
        slug: Option<String>,
        /// The title [default: the file's name, or as before]
        #[arg(long)]
        title: Option<String>,
        /// The media type, such as image/png [default: by the file's extension]
        #[arg(long = "type", value_name = "MEDIA_TYPE")]
        content_type: Option<String>,
        /// The version it is based on [default: the newest now]
        #[arg(long, value_name = "VERSION")]
        base: Option<i64>,
    },
    /// Get a document as bytes
    Get {
        /// The channel's id, or its name if only one of yours has it
        channel: String,
        /// The document's slug, or its title
        slug: String,
        /// The file to write [default: standard output]
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// The version [default: the newest]
        #[arg(long, value_name = "VERSION")]
        at: Option<i64>,
    },
    /// Write a new document
    Create {
        /// The channel's id, or its name if only one of yours has it
        channel: String,
        /// The slug: lower-case letters, digits and -
        slug: String,
        /// The title
        #[arg(long)]
        title: Option<String>,
        /// The file with its text [default: standard input]
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Delete a document with all its versions; for its creator and the channel's owner
    Delete {
        /// The channel's id, or its name if only one of yours has it
        channel: String,
        /// The document's slug
        slug: String,
    },
    /// Write a new version of a document
    Edit {
        /// The channel's id, or its name if only one of yours has it
        channel: String,
        /// The document's slug
        slug: String,
        /// The file with its text [default: standard input]
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// The version it is based on [default: the newest now]
        #[arg(long, value_name = "VERSION")]
        base: Option<i64>,
    },
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<ExitCode> {
    let client = global.keyed_client()?;
    match args.command {
        Command::List { channel } => {
            let channel = find(global, channel).await?;
            let items = global.all_items(&["channels", &channel, "artifacts"], &[]).await?;
            list(global, &items, ["SLUG", "VERSION", "TITLE"], |one: Value| {
                let text = |name: &str| one[name].as_str().unwrap_or("-").to_owned();
                [text("slug"), one["version"].to_string(), text("title")]
            })?;
        }
        Command::Read { channel, slug } => {
            let channel = find(global, channel).await?;
            let found = look_up(global, &client, &channel, &slug, &[]).await?;
            if global.json {
                output::json(&found)?;
                return Ok(ExitCode::SUCCESS);
            }
            let document: Document = read(&found)?;
            if document.encoding == Encoding::Base64 {
                bail!("this is no text; `chorus document get` gets it as it is");
            }
            print(&document)?;
        }
        Command::Put { channel, file, slug, title, content_type, base } => {
            let channel = find(global, channel).await?;
            let file = File { path: file, slug, title, content_type };
            written(global, &put(&client, &channel, file, base).await?)?;
        }
        Command::Get { channel, slug, output, at } => {
            let channel = find(global, channel).await?;
            let at = at.map(|version| version.to_string());
            let query: Vec<_> = at.as_deref().map(|version| ("version", version)).into_iter().collect();
            let found = look_up(global, &client, &channel, &slug, &query).await?;
            match output {
                Some(path) => save(global, &read(&found)?, &path)?,
                None if global.json => output::json(&found)?,
                None => print(&read(&found)?)?,
            }
        }
        Command::Create { channel, slug, title, file } => {
            let channel = find(global, channel).await?;
            let body = without_nulls(json!({"slug": slug, "title": title, "content": content(file)?}));
            let path = ["channels", &channel, "artifacts"];
            written(global, &client.api_write(Method::POST, &path, &[], Some(&body)).await?)?;
        }
        Command::Delete { channel, slug } => {
            let channel = find(global, channel).await?;
            let path = ["channels", &channel, "artifacts", &slug];
            client.api_write::<IgnoredAny>(Method::DELETE, &path, &[], None).await?;
            done(global, &json!({"slug": slug, "removed": true}), &format!("{} removed", one_line(&slug)))?;
        }
        Command::Edit { channel, slug, file, base } => {
            let channel = find(global, channel).await?;
            let path = ["channels", &channel, "artifacts", &slug];
            let base = match base {
                Some(base) => base,
                None => client.api_get::<Value>(&path, &[]).await?["version"].as_i64().unwrap_or_default(),
            };
            let body = json!({"content": content(file)?, "base_version": base});
            written(global, &client.api_write(Method::PUT, &path, &[], Some(&body)).await?)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns a document given by its slug, or by its title if only one has it.
async fn look_up(
    global: &Global,
    client: &Client,
    channel: &str,
    named: &str,
    query: &[(&str, &str)],
) -> anyhow::Result<Value> {
    let refused = match client.api_get(&["channels", channel, "artifacts", named], query).await {
        Err(error @ ClientError::Refused { status: 400 | 404, .. }) => error,
        found => return Ok(found?),
    };
    let all: Vec<Value> = global.all_items(&["channels", channel, "artifacts"], &[]).await?;
    let mut slugs = all.iter().filter(|one| one["title"] == named).filter_map(|one| one["slug"].as_str());
    match (slugs.next(), slugs.next()) {
        (Some(slug), None) => Ok(client.api_get(&["channels", channel, "artifacts", slug], query).await?),
        (None, _) => Err(refused.into()),
        (Some(_), Some(_)) => {
            bail!("several documents are called {named:?}; `chorus document list` tells their slugs")
        }
    }
}

/// A file that becomes a document.
struct File {
    path: PathBuf,
    slug: Option<String>,
    title: Option<String>,
    content_type: Option<String>,
}

/// Writes a file as a new version of the document with its slug, or as a new document.
async fn put(client: &Client, channel: &str, file: File, base: Option<i64>) -> anyhow::Result<Value> {
    let File { path, slug, title, content_type } = file;
    let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let slug = if let Some(slug) = slug {
        slug
    } else {
        let slug = slug_of(&path);
        refuse_other(client, channel, &slug, title.as_deref().unwrap_or(&name)).await?;
        slug
    };
    let ending = path.extension().unwrap_or_default().to_string_lossy();
    let content_type = content_type.or_else(|| type_of(&ending).map(str::to_owned));
    let (content, encoding) = match String::from_utf8(bytes) {
        Ok(text) => (text, Encoding::Text),
        Err(error) => (BASE64.encode(error.as_bytes()), Encoding::Base64),
    };
    let mut body = without_nulls(json!({"title": title, "content": content, "encoding": encoding,
        "content_type": content_type, "base_version": base}));
    let place = ["channels", channel, "artifacts", &slug];
    match client.api_write(Method::PUT, &place, &[], Some(&body)).await {
        Err(ClientError::Refused { status: 404, .. }) if base.is_none() => {
            body["slug"] = slug.as_str().into();
            body["title"] = title.unwrap_or_else(|| name.into_owned()).into();
            Ok(client.api_write(Method::POST, &place[..3], &[], Some(&body)).await?)
        }
        answer => Ok(answer?),
    }
}

/// Refuses to overwrite another document that only happens to have the same slug.
async fn refuse_other(client: &Client, channel: &str, slug: &str, title: &str) -> anyhow::Result<()> {
    let known = match client.api_get::<Document>(&["channels", channel, "artifacts", slug], &[]).await {
        Err(ClientError::Refused { status: 404, .. }) => return Ok(()),
        known => known?,
    };
    if known.title == title {
        return Ok(());
    }
    let what = format!("the document {slug} is {:?}, not {title:?}", known.title);
    let hint = "--slug says which document it is: that one, of which it is the next version then, or another";
    Err(Explained::usage(output::one_line(&what), hint).into())
}

/// Makes a slug of a file's name.
fn slug_of(path: &Path) -> String {
    let name = path.file_stem().unwrap_or_default().to_string_lossy().to_lowercase();
    let sign = |sign: char| if sign.is_ascii_alphanumeric() { sign } else { '-' };
    let name: String = name.chars().map(sign).collect();
    let words: Vec<_> = name.split('-').filter(|word| !word.is_empty()).collect();
    words.join("-").chars().take(MAX_SLUG).collect()
}

/// Returns the bytes of a document.
fn bytes_of(document: &Document) -> anyhow::Result<Vec<u8>> {
    let content = document.content.as_deref().unwrap_or_default();
    Ok(match document.encoding {
        Encoding::Text => content.as_bytes().to_vec(),
        Encoding::Base64 => BASE64.decode(content.as_bytes()).context("the hub sent no base64")?,
    })
}

/// Prints a document: as bytes, or to a terminal with control characters escaped.
fn print(document: &Document) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let bytes = if out.is_terminal() {
        for_terminal(document.encoding, document.content.as_deref().unwrap_or_default())?
    } else {
        bytes_of(document)?
    };
    Ok(out.write_all(&bytes).and_then(|()| out.flush())?)
}

/// Writes a document to a file, as bytes.
fn save(global: &Global, document: &Document, path: &Path) -> anyhow::Result<()> {
    let bytes = bytes_of(document)?;
    std::fs::write(path, &bytes).with_context(|| format!("cannot write {}", path.display()))?;
    let Document { slug, version, .. } = document;
    if global.json {
        return output::json(&json!({"slug": slug, "version": version, "file": path, "bytes": bytes.len()}));
    }
    output::talk(format_args!("version {version} written to {}", path.display()));
    Ok(())
}

/// Escapes a document for a terminal: control characters are shown.
fn for_terminal(encoding: Encoding, content: &str) -> anyhow::Result<Vec<u8>> {
    match encoding {
        // The next prompt begins on its own line.
        Encoding::Text => Ok(format!("{}\n", many_lines(content).trim_end_matches('\n')).into_bytes()),
        Encoding::Base64 => bail!("this is no text; write it to a file with -o"),
    }
}

fn written(global: &Global, answer: &Value) -> anyhow::Result<()> {
    let Document { slug, version, .. } = read(answer)?;
    done(global, answer, &format!("{} version {version}", one_line(&slug)))
}

/// Reads the text of a file, or standard input.
fn content(file: Option<PathBuf>) -> anyhow::Result<String> {
    if let Some(path) = file {
        return std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()));
    }
    output::talk("reading standard input");
    piped(std::io::stdin().lock())
}

/// Reads the whole text unchanged, including its last line break.
fn piped(input: impl Read) -> anyhow::Result<String> {
    let mut text = String::new();
    let read = input.take(MAX_PIPED + 1).read_to_string(&mut text);
    let read = read.context("cannot read standard input; `chorus document put` takes a file of any kind")?;
    if read as u64 > MAX_PIPED {
        return Err(Explained::usage("this is too long for a document", "share it in parts").into());
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_piped_stays_as_it_is() {
        for text in ["", "a", "a\n", "a\r\n\n", "\n"] {
            assert_eq!(piped(text.as_bytes()).unwrap(), text);
        }
        piped(&b"\xff"[..]).unwrap_err();
        piped(std::io::repeat(b'x')).unwrap_err();
    }

    #[test]
    fn a_document_cannot_drive_the_terminal() {
        let shown = for_terminal(Encoding::Text, "a\u{1b}]0;x\u{7}b\n\u{202e}c").unwrap();
        assert_eq!(String::from_utf8(shown).unwrap(), "a\\u{1b}]0;x\\u{7}b\nc\n");
        for_terminal(Encoding::Base64, "eA==").unwrap_err();
    }
}
