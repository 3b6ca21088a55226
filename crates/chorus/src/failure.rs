//! Prints failures: one sentence, its root cause, a hint if there is one, and the exit code.
//!
//! Everything printed here may come from a server, so control characters are escaped.

use crate::output;
use chorus_agent::{ClientError, DirectError, ExitClass};
use chorus_protocol::code::Code;
use chorus_protocol::credentials::SecretKind;
use owo_colors::OwoColorize;
use serde_json::json;
use std::fmt;
use std::io;
use std::process::ExitCode;

/// The exit code of a command that ran and failed.
pub(crate) const FAILED: u8 = 1;
const WRONG_USAGE: u8 = 2;
/// The code for wrong usage in JSON output.
const USAGE: &str = "USAGE";
const REFUSED: u8 = 3;
/// The exit code for a hub that does not answer.
pub(crate) const UNREACHABLE: u8 = 4;

/// An error of this program: what is wrong, and what to do.
#[derive(Debug)]
pub(crate) struct Explained {
    code: u8,
    what: String,
    hint: &'static str,
}

impl Explained {
    /// The command was called wrongly, in a way clap cannot detect.
    pub(crate) fn usage(what: impl Into<String>, hint: &'static str) -> Self {
        Self { code: WRONG_USAGE, what: what.into(), hint }
    }

    /// The hub refused.
    pub(crate) fn refused(what: impl Into<String>, hint: &'static str) -> Self {
        Self { code: REFUSED, what: what.into(), hint }
    }

    /// The command was called correctly and failed.
    pub(crate) fn failed(what: impl Into<String>, hint: &'static str) -> Self {
        Self { code: FAILED, what: what.into(), hint }
    }
}

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Explained {}

/// Prints a failure to standard error, for a program as one line of JSON, and returns its exit code. The hint
/// may depend on the kind of key that was used.
pub(crate) fn report(error: &anyhow::Error, key: Option<SecretKind>, json: bool) -> ExitCode {
    report_with_hint(error, hint(error, key), json)
}

/// Prints a failure of a command that used the key of a profile.
pub(crate) fn report_of_profile(error: &anyhow::Error, key: Option<SecretKind>, json: bool) -> ExitCode {
    let is_refused = error.downcast_ref().and_then(ClientError::code) == Some(Code::Unauthorized);
    report_with_hint(error, if is_refused { Some(REFUSED_PROFILE) } else { hint(error, key) }, json)
}

fn report_with_hint(error: &anyhow::Error, hint: Option<&str>, json: bool) -> ExitCode {
    // A closed pipe is no failure: `chorus inbox | head -1` ends this way.
    if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
        return ExitCode::SUCCESS;
    }
    let told = sentence(error.as_ref());
    if json {
        output::talk(json!({"error": {"code": word(error), "message": told, "hint": hint}}));
        return ExitCode::from(code(error));
    }
    output::talk(format_args!("{}{} {told}", "error".red().bold(), ":".bold()));
    if let Some(hint) = hint {
        output::talk(format_args!("\n{}{} {hint}", "hint".cyan().bold(), ":".bold()));
    }
    ExitCode::from(code(error))
}

/// Prints a usage error, or the requested help or version, and returns the exit code.
pub(crate) fn misused(error: &clap::Error, json: bool) -> ExitCode {
    if !json || !error.use_stderr() {
        error.exit();
    }
    let (message, hint) = in_short(&error.render().to_string());
    output::talk(json!({"error": {"code": USAGE, "message": message, "hint": hint}}));
    ExitCode::from(WRONG_USAGE)
}

/// Shortens the paragraphs of `clap` to one sentence and a hint with the suggestion and the usage.
fn in_short(told: &str) -> (String, Option<String>) {
    let line = |text: &str| output::one_line(&text.split_whitespace().collect::<Vec<_>>().join(" "));
    let mut paragraphs = told.split("\n\n").map(line);
    let message = paragraphs.next().unwrap_or_default();
    let is_hint = |text: &String| ["tip: ", "Usage: "].iter().any(|begin| text.starts_with(begin));
    let hint = paragraphs.filter(is_hint).collect::<Vec<_>>().join("; ");
    let message = message.strip_prefix("error: ").unwrap_or(&message).to_owned();
    (message, Some(hint).filter(|hint| !hint.is_empty()))
}

/// Formats an error and its root cause on one line. The errors in between help only library authors.
pub(crate) fn sentence(error: &(dyn std::error::Error + 'static)) -> String {
    let mut root = error;
    while let Some(source) = root.source() {
        root = source;
    }
    let (top, root) = (error.to_string(), root.to_string());
    output::one_line(&if top == root { top } else { format!("{top}: {root}") })
}

/// Returns the code for programs: the hub's own, or one for each exit code.
fn word(error: &anyhow::Error) -> String {
    if let Some(ClientError::Refused { code, .. }) = error.downcast_ref() {
        return code.clone();
    }
    let word = match code(error) {
        WRONG_USAGE => USAGE,
        REFUSED => "REFUSED",
        UNREACHABLE => "UNREACHABLE",
        _ => "FAILED",
    };
    word.to_owned()
}

fn code(error: &anyhow::Error) -> u8 {
    if let Some(explained) = error.downcast_ref::<Explained>() {
        return explained.code;
    }
    let direct = || error.downcast_ref().map(DirectError::exit_class);
    match error.downcast_ref().map(ClientError::exit_class).or_else(direct) {
        Some(ExitClass::Usage) => WRONG_USAGE,
        Some(ExitClass::Refused) => REFUSED,
        Some(ExitClass::Unreachable) => UNREACHABLE,
        Some(ExitClass::Failed) | None => FAILED,
    }
}

/// Returns the advice for an error, if there is one.
pub(crate) fn hint(error: &anyhow::Error, key: Option<SecretKind>) -> Option<&'static str> {
    if let Some(explained) = error.downcast_ref::<Explained>() {
        return Some(explained.hint);
    }
    if let Some(DirectError::Unreachable { .. }) = error.downcast_ref() {
        return Some(
            "is the agent there listening? `chorus receive` does, and `chorus market work --listen` for jobs",
        );
    }
    if let Some(DirectError::Blocked { .. }) = error.downcast_ref() {
        return Some(
            "who registered it could have you call your own network: name it with --endpoint, or --allow-private",
        );
    }
    let error = error.downcast_ref::<ClientError>()?;
    if let ClientError::TakenOver = error {
        return Some("an agent has one session: give each program an agent of its own");
    }
    match (error.code(), error.exit_class()) {
        (Some(Code::Unauthorized), _) => Some(refused_key(key)),
        (Some(Code::AgentIdTaken), _) => {
            Some("choose another name, or show the agent's own key with --key or CHORUS_KEY to update it")
        }
        (Some(Code::SenderMismatch), _) => Some(
            "an agent speaks only for itself: --from or CHORUS_AGENT must name the agent whose key this is",
        ),
        // With the operator's key, the hub's message already names the required key.
        (Some(Code::Forbidden), _) if key == Some(SecretKind::OperatorKey) => None,
        (Some(Code::Forbidden), _) if key.is_some() => {
            Some("this key may not do that: it needs that of whoever owns it, or of the operator")
        }
        (Some(Code::AgentNotFound | Code::SenderNotRegistered), _) => {
            Some("`chorus agents` lists who is there")
        }
        (_, ExitClass::Unreachable) => {
            Some("start a hub here with `chorus serve`, or name another with --url or CHORUS_URL")
        }
        _ => None,
    }
}

/// The advice for a profile whose key the hub rejects.
const REFUSED_PROFILE: &str = "the key is that of your profile (`chorus whoami`): `chorus login URL` keeps another, `chorus logout` forgets it";

/// Returns the advice for a key that the hub rejects.
fn refused_key(key: Option<SecretKind>) -> &'static str {
    match key {
        Some(SecretKind::AgentKey) => {
            "is CHORUS_KEY the newest key of this agent? Each `chorus register NAME` makes the old one useless. `chorus register` \
             and `chorus agents` need none: `unset CHORUS_KEY`"
        }
        Some(SecretKind::ApiToken) => {
            "was this token revoked, or is it another hub's? Make one on the hub's page, under Account, or with `chorus token \
             create` and one that works. What needs no key is done after `unset CHORUS_KEY`"
        }
        Some(SecretKind::OperatorKey) => {
            "is it the operator's key of this very hub? It was printed at its first start, or is its CHORUS_OPERATOR_KEY. What \
             needs no key is done after `unset CHORUS_KEY`"
        }
        Some(SecretKind::OwnerKey) => {
            "is it the key of this very owner? It was shown once, when `chorus market register` was the first to name the owner. \
             What needs no key is done after `unset CHORUS_KEY`"
        }
        None => {
            "show a key with --key or CHORUS_KEY: an agent's ca_…, an owner's cw_…, a person's token ct_… or the operator's co_…"
        }
        Some(_) => {
            "CHORUS_KEY or --key is an agent's key ca_…, an owner's cw_…, a person's token ct_… or the operator's key co_…; what \
             needs none is done after `unset CHORUS_KEY`"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: &str) -> anyhow::Error {
        let (code, message) = (code.to_owned(), "no\u{1b}[2J".to_owned());
        ClientError::Refused { status: 400, code, message, retry_after: None }.into()
    }

    #[test]
    fn codes_and_hints() {
        assert_eq!(code(&refused("ERR_VALIDATION")), 3);
        assert_eq!(code(&ClientError::Lost("gone").into()), 4);
        assert_eq!(code(&Explained::usage("x", "y").into()), 2);
        assert_eq!(code(&anyhow::anyhow!("x")), 1);
        assert_eq!(hint(&refused("ERR_VALIDATION"), None), None);
        assert!(hint(&refused("ERR_AGENT_ID_TAKEN"), None).unwrap().contains("--key"));
        assert!(hint(&refused("FORBIDDEN"), Some(SecretKind::AgentKey)).unwrap().contains("whoever owns it"));
        assert_eq!(hint(&Explained::usage("x", "y").into(), None), Some("y"));
        for (key, told) in [
            (Some(SecretKind::AgentKey), "register NAME"),
            (Some(SecretKind::ApiToken), "token create"),
            (Some(SecretKind::OperatorKey), "CHORUS_OPERATOR_KEY"),
            (Some(SecretKind::OwnerKey), "this very owner"),
            (Some(SecretKind::MagicLink), "cw_…"),
            (None, "--key or CHORUS_KEY"),
        ] {
            let hint = hint(&refused("UNAUTHORIZED"), key).unwrap();
            assert!(hint.contains(told), "{key:?}: {hint}");
            // Without a key there is none to unset.
            assert_eq!(hint.contains("unset CHORUS_KEY"), key.is_some(), "{key:?}: {hint}");
        }
    }

    #[test]
    fn what_a_program_goes_by() {
        assert_eq!(word(&refused("ERR_VALIDATION")), "ERR_VALIDATION");
        assert_eq!(word(&Explained::usage("x", "y").into()), "USAGE");
    }

    #[test]
    fn wrong_arguments_in_a_sentence() {
        let told = "error: the following required arguments were not provided:\n  <TEXT>\n\nUsage: chorus send <TO> <TEXT>\n\nFor \
                    more information, try '--help'.\n";
        let (message, hint) = in_short(told);
        assert_eq!(message, "the following required arguments were not provided: <TEXT>");
        assert_eq!(hint.as_deref(), Some("Usage: chorus send <TO> <TEXT>"));
        let told = "error: unrecognized subcommand 'sned\u{1b}[1m'\n\n  tip: a similar subcommand exists: 'send'\n\nUsage: chorus \
                    <COMMAND>\n";
        let (message, hint) = in_short(told);
        assert_eq!(message, "unrecognized subcommand 'sned\\u{1b}[1m'");
        assert_eq!(
            hint.as_deref(),
            Some("tip: a similar subcommand exists: 'send'; Usage: chorus <COMMAND>")
        );
        assert_eq!(in_short("error: no\n"), ("no".into(), None));
    }

    #[test]
    fn the_root_cause_is_told_and_made_harmless() {
        let error =
            anyhow::Error::from(io::Error::other("disk\u{7}")).context("middle").context("cannot write");
        assert_eq!(sentence(error.as_ref()), "cannot write: disk\\u{7}");
        assert_eq!(sentence(refused("X").as_ref()), "the hub refused: no\\u{1b}[2J (X)");
    }
}
