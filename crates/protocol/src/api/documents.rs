//! Versioned documents of a conversation: texts, or bytes that JSON carries as base64.

use super::PrincipalView;
use crate::words::words;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A title: one line of text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(
    title = "one line of 1 to 200 characters with something in it",
    min_length = 1,
    max_length = 200,
    pattern = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$"
)]
pub struct Title(pub String);

/// A document's name in URLs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(
    title = "1 to 64 lower-case letters, digits and dashes, no dash first",
    pattern = "^[a-z0-9][a-z0-9-]{0,63}$",
    example = "release-notes"
)]
pub struct Slug(pub String);

/// A media type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(
    title = "a media type in lower case, such as text/markdown",
    max_length = 100,
    pattern = "^[a-z0-9.+-]+/[a-z0-9.+-]+$"
)]
pub struct MediaType(pub String);

words! {
    /// The encoding of a document in JSON.
    pub enum Encoding {
        /// Plain text.
        Text = "utf-8",
        /// Base64 (RFC 4648, section 4, with padding), for bytes that are not text.
        Base64 = "base64",
    }
}

/// Returns `true` for image types that browsers only draw. (Browsers execute scripts in other types, SVG among
/// them.)
pub fn is_picture(content_type: &str) -> bool {
    matches!(content_type, "image/png" | "image/jpeg" | "image/gif" | "image/webp")
}

/// Media types and file extensions. The first extension of a type is used for generated file names.
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

/// Returns the file extension of a media type, if known.
pub fn ending_of(content_type: &str) -> Option<&'static str> {
    ENDINGS.iter().find(|(known, _)| *known == content_type).map(|(_, ending)| *ending)
}

/// Returns the media type of a file extension, if known.
pub fn type_of(ending: &str) -> Option<&'static str> {
    ENDINGS.iter().find(|(_, known)| ending.eq_ignore_ascii_case(known)).map(|(kind, _)| *kind)
}

/// A document to create.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = NewArtifactBody)]
pub struct NewDocument {
    /// The document's name in URLs.
    pub slug: Slug,
    /// The title; the slug by default.
    pub title: Option<Title>,
    /// The content, at most 1 MiB unless the operator has set another limit. Credentials in it are masked.
    pub content: String,
    /// The encoding of `content`; plain text by default. Base64 content that is valid text is stored as text.
    pub encoding: Option<Encoding>,
    /// The media type; `text/markdown` for texts and `application/octet-stream` for bytes by default.
    pub content_type: Option<MediaType>,
}

/// A new version of a document.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = ArtifactBody)]
pub struct DocumentChange {
    /// The title; unchanged by default.
    pub title: Option<Title>,
    /// The content, at most 1 MiB unless the operator has set another limit. Credentials in it are masked.
    pub content: String,
    /// The encoding of `content`; plain text by default. Base64 content that is valid text is stored as text.
    pub encoding: Option<Encoding>,
    /// The media type; unchanged by default.
    pub content_type: Option<MediaType>,
    /// The version that the change is based on; the newest by default.
    #[schema(minimum = 1, maximum = 9_007_199_254_740_991_i64)]
    pub base_version: Option<i64>,
}

/// A version of a document.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = ArtifactView)]
pub struct Document {
    /// The document's name in URLs.
    pub slug: String,
    /// The version number, from 1.
    pub version: i64,
    /// The title.
    pub title: String,
    /// The media type.
    pub content_type: String,
    /// The encoding of `content`. `…/raw` returns the plain bytes.
    #[serde(default = "as_text")]
    pub encoding: Encoding,
    /// The size in bytes.
    #[serde(default)]
    pub size: i64,
    /// The content. Absent in lists and in the response to its author.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// The author of this version.
    pub author: PrincipalView,
    /// The time of creation of this version.
    pub created_at: String,
    /// The kinds of credentials that were masked in it. Shown to its author.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub masked: Vec<String>,
}

/// Returns the encoding meant by hubs that know no other.
fn as_text() -> Encoding {
    Encoding::Text
}
