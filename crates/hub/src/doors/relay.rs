//! The relay's door: Chorus Transport 0.4, exactly where its document puts things.

pub(crate) mod bodies;
pub(crate) mod directory;
pub(crate) mod inbox;
pub(crate) mod reply;
pub(crate) mod send;

use crate::error::ApiError;
use crate::route::{Credentials, Route};
use crate::routes::Routes;
use axum::Json;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use chorus_app::App;
pub(crate) use chorus_app::agents::AgentRef;
use chorus_protocol::faults::Faults;
use chorus_protocol::relay::{Metadata, Success};
use chorus_protocol::time::rfc3339;
use serde::Serialize;
use utoipa_axum::routes;

pub(crate) fn routes() -> Routes {
    // Who wants to register again has a stale key; its door looks at the key itself.
    let register = Route { credentials: Credentials::Ignored, ..Route::RELAY };
    Routes::default()
        .at(register, routes!(directory::register))
        .at(Route::RELAY, routes!(directory::list, directory::register_by_operator))
        .at(Route::RELAY, routes!(directory::one, directory::unregister))
        .at(Route::RELAY, routes!(send::send))
        .at(reply::REPLIES, routes!(reply::reply))
        .at(Route::RELAY, routes!(inbox::open))
        .at(Route::RELAY, routes!(inbox::history))
}

/// A success in the relay's common format.
pub(super) fn success<T: Serialize>(app: &App, status: StatusCode, data: T) -> Response {
    success_page(app, status, data, None)
}

/// The same for a page of a list.
pub(super) fn success_page<T: Serialize>(
    app: &App,
    status: StatusCode,
    data: T,
    next: Option<String>,
) -> Response {
    let metadata = Metadata { timestamp: rfc3339(app.now()), next };
    (status, Json(Success { success: true, data, metadata })).into_response()
}

/// A page of a list as its query asks for it: `?after=&limit=`.
#[derive(Debug)]
pub(crate) struct PageQuery {
    pub(crate) after: Option<String>,
    pub(crate) limit: i64,
}

impl PageQuery {
    const DEFAULT: i64 = 50;
    const MOST: i64 = 200;

    pub(crate) fn parse(uri: &Uri) -> Result<Self, ApiError> {
        let (mut page, mut faults) = (Self { after: None, limit: Self::DEFAULT }, Faults::new());
        for (name, value) in url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
            match &*name {
                "after" if value.contains('\0') => faults.add("after", "must not contain U+0000"),
                "after" => page.after = Some(value.into_owned()).filter(|after| !after.is_empty()),
                "limit" => match value.parse() {
                    Ok(limit) if (1..=Self::MOST).contains(&limit) => page.limit = limit,
                    _ => faults.add("limit", format_args!("must be an integer from 1 to {}", Self::MOST)),
                },
                _ => {}
            }
        }
        if faults.is_empty() { Ok(page) } else { Err(faults.into()) }
    }
}

/// A place in an inbox as a client names it: an SSE id.
pub(crate) fn parse_place(name: &str, text: &str) -> Result<i64, ApiError> {
    // Eighteen digits: more than there will ever be, and they fit.
    let digits = text.len() <= 18 && text.bytes().all(|byte| byte.is_ascii_digit());
    let place = text.parse().ok().filter(|_| digits);
    place.ok_or_else(|| Faults::one(name, "must be the id of a message in this inbox").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_digits() {
        for (text, place) in
            [("0", Some(0)), ("0012", Some(12)), ("999999999999999999", Some(999_999_999_999_999_999))]
        {
            assert_eq!(parse_place("after", text).ok(), place, "{text}");
        }
        for text in ["", "+5", "-1", "1.0", " 1", "1000000000000000000", "٣"] {
            assert!(parse_place("after", text).is_err(), "{text}");
        }
    }
}
