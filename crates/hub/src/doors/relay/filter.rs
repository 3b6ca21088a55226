//! Looking for agents: what a query asks of them.

use crate::error::ApiError;
use axum::http::Uri;
use chorus_protocol::faults::Faults;
use chorus_store::directory::Search;

/// What is asked; nothing asks for everybody.
pub(crate) fn parse(uri: &Uri) -> Result<Search, ApiError> {
    let (mut search, mut faults) = (Search::default(), Faults::new());
    for (name, value) in url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
        match &*name {
            "q" | "culture" | "language" if value.contains('\0') => {
                faults.add(&name, "must not contain U+0000");
            }
            "q" => search.text = Some(value.into_owned()),
            "culture" => search.culture = Some(value.into_owned()),
            "language" => search.language = Some(value.into_owned()),
            "online" => match &*value {
                "true" => search.online = Some(true),
                "false" => search.online = Some(false),
                _ => faults.add("online", "must be true or false"),
            },
            _ => {}
        }
    }
    if faults.is_empty() { Ok(search) } else { Err(faults.into()) }
}
