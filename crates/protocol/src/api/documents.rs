//! Documents of a conversation, in versions.

use super::PrincipalView;
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
    /// What it is made of; `text/markdown`, unless said.
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
