//! Forms with a file: `multipart/form-data` as browsers write it (RFC 7578), read whole, bounded in size, time
//! and number of parts.
//!
//! This module does not interpret or store the file.

use crate::extract::read_body;
use crate::page::Fault;
use axum::extract::{FromRequest, Request};
use axum::http::header;
use bytes::Bytes;
use chorus_node::tasks::blocking::block_in_place_if_large;
use chorus_node::{App, AppState, Error};

/// The room for other fields beside the file, in bytes.
const AROUND_FILE: usize = 64 * 1024;
const MAX_UPLOAD: usize = 64 * 1024 * 1024;
/// The most fields in a form. None of ours has more.
const MAX_PARTS: usize = 16;
/// The longest boundary (RFC 2046, section 5.1.1).
const MAX_BOUNDARY: usize = 70;

/// A submitted form with a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Upload {
    fields: Vec<(String, String)>,
    /// The name and the content of the file.
    pub(crate) file: Option<(String, Bytes)>,
}

impl Upload {
    /// Returns a trimmed field, or `None` if it is absent or empty.
    pub(crate) fn some(&self, name: &str) -> Option<String> {
        let (_, text) = self.fields.iter().find(|(given, _)| given == name)?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }
}

impl FromRequest<AppState> for Upload {
    type Rejection = Fault;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, Fault> {
        let (parts, body) = request.into_parts();
        let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let boundary = kind.and_then(boundary_of).ok_or_else(unread)?.to_owned();
        let body = read_body(app, &parts, body, most(app)).await?;
        Ok(block_in_place_if_large(body.len(), || read(&body, &boundary)).ok_or_else(unread)?)
    }
}

fn unread() -> Error {
    Error::validation("this is no form with a file that can be read")
}

/// Returns the largest form in bytes: the document quota plus the other fields.
fn most(app: &App) -> usize {
    let file = usize::try_from(app.config.quotas.document_bytes).unwrap_or(MAX_UPLOAD);
    file.saturating_add(AROUND_FILE).min(MAX_UPLOAD)
}

/// Returns the boundary from the content type of a form with files.
fn boundary_of(content_type: &str) -> Option<&str> {
    let (kind, parameters) = content_type.split_once(';')?;
    let is_form = kind.trim().eq_ignore_ascii_case("multipart/form-data");
    let parameters = parameters.split(';').filter_map(|part| part.split_once('='));
    let (_, boundary) =
        parameters.into_iter().find(|(name, _)| name.trim().eq_ignore_ascii_case("boundary"))?;
    let boundary = boundary.trim().trim_matches('"');
    (is_form && (1..=MAX_BOUNDARY).contains(&boundary.len())).then_some(boundary)
}

/// Parses the parts of a body. Returns `None` for a malformed body.
fn read(body: &Bytes, boundary: &str) -> Option<Upload> {
    let (first, next) = (format!("--{boundary}"), format!("\r\n--{boundary}"));
    let mut at = body.starts_with(first.as_bytes()).then_some(first.len())?;
    let mut read = Upload::default();
    for _ in 0..MAX_PARTS {
        let rest = body.get(at..)?;
        if rest.starts_with(b"--") {
            return Some(read);
        }
        let begins = at + 2 * usize::from(rest.starts_with(b"\r\n"));
        let ends = begins + find(body.get(begins..)?, next.as_bytes())?;
        let head = find(body.get(begins..ends)?, b"\r\n\r\n")?;
        let (name, file) = disposition(std::str::from_utf8(body.get(begins..begins + head)?).ok()?)?;
        let content = body.slice(begins + head + 4..ends);
        match file {
            // Browsers send a file field without a file as an empty part.
            Some(file) if !file.is_empty() || !content.is_empty() => read.file = Some((file, content)),
            Some(_) => {}
            None => read.fields.push((name, std::str::from_utf8(&content).ok()?.replace("\r\n", "\n"))),
        }
        at = ends + next.len();
    }
    None
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

/// Parses the headers of a part into its field name and file name.
fn disposition(head: &str) -> Option<(String, Option<String>)> {
    const NAME: &str = "content-disposition:";
    let is_it = |line: &&str| line.get(..NAME.len()).is_some_and(|name| name.eq_ignore_ascii_case(NAME));
    let line = head.split("\r\n").find(is_it)?;
    Some((quoted(line, "; name=\"")?, quoted(line, "; filename=\"")))
}

/// Returns the text between `before` and the next quotation mark. Browsers escape quotation marks inside
/// names.
fn quoted(line: &str, before: &str) -> Option<String> {
    let (_, rest) = line.split_once(before)?;
    let (text, _) = rest.split_once('"')?;
    Some(text.replace("%22", "\"").replace("%0D", " ").replace("%0A", " "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KIND: &str = "multipart/form-data; boundary=----WebKitFormBoundaryx1";

    fn body(parts: &[(&str, &[u8])]) -> Bytes {
        let mut body = vec![];
        for (head, content) in parts {
            body.extend_from_slice(b"------WebKitFormBoundaryx1\r\nContent-Disposition: form-data; ");
            body.extend_from_slice(head.as_bytes());
            body.extend_from_slice(b"\r\n\r\n");
            body.extend_from_slice(content);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(b"------WebKitFormBoundaryx1--\r\n");
        body.into()
    }

    fn parsed(body: &Bytes) -> Option<Upload> {
        read(body, boundary_of(KIND)?)
    }

    #[test]
    fn a_file_and_its_fields_are_read_as_they_are() {
        let bytes = b"\r\n--not the boundary\r\n\xff\x00";
        let whole = body(&[
            ("name=\"title\"", " The plan \u{1f680}".as_bytes()),
            ("name=\"file\"; filename=\"pl%22an.md\"\r\nContent-Type: text/markdown", bytes),
        ]);
        let read = parsed(&whole).unwrap();
        assert_eq!(read.some("title").as_deref(), Some("The plan \u{1f680}"));
        assert_eq!(read.file, Some(("pl\"an.md".into(), Bytes::from_static(bytes))));
        let none = parsed(&body(&[("name=\"file\"; filename=\"\"", b"")])).unwrap();
        assert_eq!((none.file, none.fields.len()), (None, 0));
        assert_eq!(parsed(&body(&[])), Some(Upload::default()));
    }

    #[test]
    fn what_is_no_such_form_is_refused() {
        for kind in [
            "text/plain",
            "multipart/form-data",
            "multipart/form-data; boundary=",
            "multipart/mixed; boundary=x",
        ] {
            assert_eq!(boundary_of(kind), None, "{kind}");
        }
        assert_eq!(boundary_of("multipart/form-data; boundary=\"a b\""), Some("a b"));
        assert_eq!(boundary_of(&format!("multipart/form-data; boundary={}", "x".repeat(71))), None);
        let whole = body(&[("name=\"a\"", b"b")]);
        assert_eq!(parsed(&whole.slice(..whole.len() - 4)), None, "it has no end");
        assert_eq!(parsed(&body(&[("nothing", b"")])), None);
        let many = vec![("name=\"a\"", &b"b"[..]); MAX_PARTS];
        assert_eq!(parsed(&body(&many)), None);
    }

    proptest! {
        /// The parser accepts or rejects any input without panicking.
        #[test]
        fn nothing_that_is_sent_breaks_it(bytes in prop::collection::vec(any::<u8>(), 0..300), cut in 0usize..300) {
            let whole = body(&[("name=\"file\"; filename=\"f\"", &bytes)]);
            parsed(&whole.slice(..cut.min(whole.len())));
            let mixed = [b"------WebKitFormBoundaryx1".as_slice(), &bytes].concat();
            parsed(&mixed.into());
        }
    }
}
