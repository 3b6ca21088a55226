//! Submitted forms, bounded in size and time.

use crate::extract::read_body;
use crate::page::Fault;
use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use chorus_node::{AppState, Error};
use chorus_protocol::faults::Faults;
use chorus_protocol::schema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// The largest form body, in bytes. It fits a message, a Score or an evidence bundle, whose characters may
/// take three bytes each.
const MAX_FORM: usize = 1024 * 1024;

pub(crate) struct Form(Bytes);

impl FromRequest<AppState> for Form {
    type Rejection = Fault;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, Fault> {
        let (parts, body) = request.into_parts();
        Ok(Self(read_body(app, &parts, body, MAX_FORM).await?))
    }
}

impl Form {
    /// Returns a trimmed field, or an empty string if it is absent.
    pub(crate) fn text(&self, name: &str) -> String {
        self.get(name).map_or_else(String::new, |text| text.trim().to_owned())
    }

    /// Returns a trimmed field, or `None` if it is absent or empty.
    pub(crate) fn some(&self, name: &str) -> Option<String> {
        Some(self.text(name)).filter(|text| !text.is_empty())
    }

    /// Returns a trimmed field, or `None` if the form does not have it. The text may be empty.
    pub(crate) fn given(&self, name: &str) -> Option<String> {
        self.get(name).map(|text| text.trim().to_owned())
    }

    /// Returns a field without trimming it.
    pub(crate) fn written(&self, name: &str) -> String {
        self.get(name).unwrap_or_default()
    }

    /// Returns all fields of this name that are not empty.
    pub(crate) fn all(&self, name: &str) -> Vec<String> {
        let fields = url::form_urlencoded::parse(&self.0).filter(|(given, _)| given == name);
        fields.map(|(_, value)| value.trim().to_owned()).filter(|value| !value.is_empty()).collect()
    }

    /// Returns all fields in the order of the form.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (String, String)> {
        url::form_urlencoded::parse(&self.0).map(|(name, value)| (name.into_owned(), value.into_owned()))
    }

    fn get(&self, name: &str) -> Option<String> {
        let found = url::form_urlencoded::parse(&self.0).find(|(given, _)| given == name);
        // Browsers submit every line break of a text area as CRLF.
        found.map(|(_, value)| value.replace("\r\n", "\n"))
    }

    /// Parses these fields like the matching API body, with the same checks. Empty fields are left out.
    pub(crate) fn body<T: ToSchema + DeserializeOwned + 'static>(&self, names: &[&str]) -> Result<T, Error> {
        let said = |name: &&str| Some(((*name).to_owned(), Value::String(self.some(name)?)));
        body(Value::Object(names.iter().filter_map(said).collect::<Map<_, _>>()))
    }
}

/// Parses a whole number.
pub(crate) fn number(name: &str, text: &str) -> Result<i64, Error> {
    text.parse().map_err(|_| Faults::one(name, "must be a whole number").into())
}

/// Parses a value like an API body, with the same checks.
pub(crate) fn body<T: ToSchema + DeserializeOwned + 'static>(value: Value) -> Result<T, Error> {
    Ok(schema::read(value)?)
}

/// Like [`body`], for bodies with amounts, which are read from the text of their numbers.
pub(crate) fn exact_body<T: ToSchema + DeserializeOwned + 'static>(value: &Value) -> Result<T, Error> {
    Ok(schema::read_exact(value.to_string().as_bytes())?)
}
