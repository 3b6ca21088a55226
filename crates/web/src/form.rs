//! What a form says: bounded in size and time.

use crate::extract::read_body;
use crate::page::Fault;
use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use chorus_app::{AppState, Error};
use chorus_protocol::faults::Faults;
use chorus_protocol::schema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// What a form may hold, in bytes: a message, a Score or a bundle of evidence, whose signs take three bytes each in a form.
const MAX_FORM: usize = 1024 * 1024;

/// A form that was filled in.
pub(crate) struct Form(Bytes);

impl FromRequest<AppState> for Form {
    type Rejection = Fault;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, Fault> {
        let (parts, body) = request.into_parts();
        Ok(Self(read_body(app, &parts.headers, body, MAX_FORM).await?))
    }
}

impl Form {
    /// A field, without the space around it; empty if it is not there.
    pub(crate) fn text(&self, name: &str) -> String {
        self.get(name).map_or_else(String::new, |text| text.trim().to_owned())
    }

    /// A field with something in it.
    pub(crate) fn some(&self, name: &str) -> Option<String> {
        Some(self.text(name)).filter(|text| !text.is_empty())
    }

    /// A field that the form has, without the space around it, though there may be nothing in it.
    pub(crate) fn given(&self, name: &str) -> Option<String> {
        self.get(name).map(|text| text.trim().to_owned())
    }

    /// A long text as it was written, with the space around it.
    pub(crate) fn written(&self, name: &str) -> String {
        self.get(name).unwrap_or_default()
    }

    /// All fields of this name that hold something.
    pub(crate) fn all(&self, name: &str) -> Vec<String> {
        let fields = url::form_urlencoded::parse(&self.0).filter(|(given, _)| given == name);
        fields.map(|(_, value)| value.trim().to_owned()).filter(|value| !value.is_empty()).collect()
    }

    /// All fields, in their order.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (String, String)> {
        url::form_urlencoded::parse(&self.0).map(|(name, value)| (name.into_owned(), value.into_owned()))
    }

    fn get(&self, name: &str) -> Option<String> {
        let found = url::form_urlencoded::parse(&self.0).find(|(given, _)| given == name);
        // Browsers end each line of a long text with two signs, whatever its writer had.
        found.map(|(_, value)| value.replace("\r\n", "\n"))
    }

    /// These fields as the body that the API takes for the same, checked like it. Those without anything in them are not said.
    pub(crate) fn body<T: ToSchema + DeserializeOwned + 'static>(&self, names: &[&str]) -> Result<T, Error> {
        let said = |name: &&str| Some(((*name).to_owned(), Value::String(self.some(name)?)));
        body(Value::Object(names.iter().filter_map(said).collect::<Map<_, _>>()))
    }
}

/// A whole number that was typed.
pub(crate) fn number(name: &str, text: &str) -> Result<i64, Error> {
    text.parse().map_err(|_| Faults::one(name, "must be a whole number").into())
}

/// Something as the API takes it, checked like it.
pub(crate) fn body<T: ToSchema + DeserializeOwned + 'static>(value: Value) -> Result<T, Error> {
    Ok(schema::read(value)?)
}

/// The same of what has amounts in it, which are read from the text of their numbers.
pub(crate) fn exact_body<T: ToSchema + DeserializeOwned + 'static>(value: &Value) -> Result<T, Error> {
    Ok(schema::read_exact(value.to_string().as_bytes())?)
}
