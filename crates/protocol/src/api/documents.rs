//! Documents of a conversation, in versions: texts, or bytes, which JSON carries as base64.

use super::PrincipalView;
use crate::words::words;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What people call something: one line with something in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(
    title = "one line of 1 to 200 characters with something in it",
    min_length = 1,
    max_length = 200,
    pattern = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$"
)]
pub struct Title(pub String);

/// The name of a document in addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(
    title = "1 to 64 lower-case letters, digits and dashes, no dash first",
    pattern = "^[a-z0-9][a-z0-9-]{0,63}$",
    example = "release-notes"
)]
pub struct Slug(pub String);

/// What a document is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(
    title = "a media type in lower case, such as text/markdown",
    max_length = 100,
    pattern = "^[a-z0-9.+-]+/[a-z0-9.+-]+$"
)]
pub struct MediaType(pub String);

words! {
    /// How JSON carries a document.
    pub enum Encoding {
        /// As it is: it is a text.
        Text = "utf-8",
        /// As base64 (RFC 4648, section 4, with padding): bytes that are no text.
        Base64 = "base64",
    }
}

/// Whether a document of this type is a picture that browsers only draw. (They run what is in others: SVG is none of these.)
pub fn is_picture(content_type: &str) -> bool {
    matches!(content_type, "image/png" | "image/jpeg" | "image/gif" | "image/webp")
}

/// Types of files and how their names end; of several endings the first is given to a file that is made.
const ENDINGS: [(&str, &str); 19] = [
    ("text/markdown", "md"),
    ("text/plain", "txt"),
    ("text/plain", "log"),
    ("text/csv", "csv"),
    ("text/html", "html"),
    ("text/html", "htm"),
    ("application/json", "json"),
    ("application/xml", "xml"),
    ("application/pdf", "pdf"),
    ("application/zip", "zip"),
    ("application/gzip", "gz"),
    ("image/png", "png"),
    ("image/jpeg", "jpg"),
    ("image/jpeg", "jpeg"),
    ("image/gif", "gif"),
    ("image/webp", "webp"),
    ("image/svg+xml", "svg"),
    ("audio/mpeg", "mp3"),
    ("video/mp4", "mp4"),
];

/// How the name of a file of this type ends, if that is known.
pub fn ending_of(content_type: &str) -> Option<&'static str> {
    ENDINGS.iter().find(|(known, _)| *known == content_type).map(|(_, ending)| *ending)
}

/// The type of a file whose name ends so, if that is known.
pub fn type_of(ending: &str) -> Option<&'static str> {
    ENDINGS.iter().find(|(_, known)| ending.eq_ignore_ascii_case(known)).map(|(kind, _)| *kind)
}

/// A document to be made.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = NewArtifactBody)]
pub struct NewDocument {
    /// Its name in addresses.
    pub slug: Slug,
    /// What people call it; its slug, unless said.
    pub title: Option<Title>,
    /// The document, at most 1 MiB unless the operator says otherwise. Credentials in it are masked.
    pub content: String,
    /// How `content` carries it: as it is, unless said. What is sent as `base64` and is a text is kept as one.
    pub encoding: Option<Encoding>,
    /// What it is made of; `text/markdown`, or for bytes `application/octet-stream`, unless said.
    pub content_type: Option<MediaType>,
}

/// A new version of a document.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = ArtifactBody)]
pub struct DocumentChange {
    /// What people call it; as before, unless said.
    pub title: Option<Title>,
    /// The document, at most 1 MiB unless the operator says otherwise. Credentials in it are masked.
    pub content: String,
    /// How `content` carries it: as it is, unless said. What is sent as `base64` and is a text is kept as one.
    pub encoding: Option<Encoding>,
    /// What it is made of; as before, unless said.
    pub content_type: Option<MediaType>,
    /// The version that was changed; the newest, unless said.
    #[schema(minimum = 1, maximum = 9_007_199_254_740_991_i64)]
    pub base_version: Option<i64>,
}

/// A document in one version.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = ArtifactView)]
pub struct Document {
    /// Its name in addresses.
    pub slug: String,
    /// Which version, from 1.
    pub version: i64,
    /// What people call it.
    pub title: String,
    /// What it is made of.
    pub content_type: String,
    /// How `content` carries it. Its bytes as they are come from `…/raw`.
    #[serde(default = "as_text")]
    pub encoding: Encoding,
    /// How many bytes it has.
    #[serde(default)]
    pub size: i64,
    /// The document; not in lists, nor in answers to who sent it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// Who made this version.
    pub author: PrincipalView,
    /// When.
    pub created_at: String,
    /// The kinds of credentials that were masked in it, for who sent it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub masked: Vec<String>,
}

/// What a hub that knows of no other means.
fn as_text() -> Encoding {
    Encoding::Text
}
