//! `/api/v1`: the hub's own JSON API. What all of its doors share: lists, and writes that may come twice.

pub(crate) mod accounts;
pub(crate) mod agents;
pub(crate) mod answers;
pub(crate) mod artifacts;
pub(crate) mod blocks;
pub(crate) mod channels;
mod conversation;
pub(crate) mod deliveries;
mod events;
pub(crate) mod invitations;
pub(crate) mod me;
mod members;
pub(crate) mod messages;
pub(crate) mod operator;
pub(crate) mod overview;
pub(crate) mod recovery;
mod search;
mod stream;

use super::body;
use crate::error::ApiError;
use crate::route::{Route, Routes};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use chorus_app::App;
use chorus_app::caller::Caller;
pub(crate) use chorus_app::page::{fitting, page};
use chorus_app::secrets::MasterKey;
pub(crate) use chorus_protocol::api::Items;
use chorus_protocol::relay::Code;
use chorus_store::Tx;
use chorus_store::idempotency::{self, Answer, Key, Known};
use data_encoding::BASE64;
use serde::Serialize;
use serde_json::Value;

pub(crate) fn routes() -> Routes {
    accounts::routes()
        .and(me::routes())
        .and(invitations::routes())
        .and(blocks::routes())
        .and(agents::routes())
        .and(channels::routes())
        .and(messages::routes())
        .and(deliveries::routes())
        .and(recovery::routes())
        .and(operator::routes())
        .and(overview::routes())
        .under("/api/v1", Route::API)
}

/// How long an `Idempotency-Key` is remembered.
const KEY_LIFE_MS: i64 = 24 * 60 * 60 * 1000;

/// What a write answers.
pub(crate) type Written = (StatusCode, Value);

/// A value as an answer's body.
pub(crate) fn value(data: &impl Serialize) -> Result<Value, ApiError> {
    serde_json::to_value(data).map_err(ApiError::internal)
}

/// Runs a write in one transaction. With an `Idempotency-Key` it is done once for the same caller, path and body, and
/// the first answer is given again; an error is not remembered, so that the same request can be tried again.
pub(crate) async fn write<F>(
    app: &App,
    caller: &Caller,
    headers: &HeaderMap,
    path: &str,
    body: &Bytes,
    work: F,
) -> Result<Response, ApiError>
where
    F: Fn(&mut dyn Tx) -> Result<Written, ApiError> + Send + 'static,
{
    let now = app.now();
    let who = caller.principal().map_or_else(|_| caller.kind().to_owned(), |principal| principal.to_string());
    let key = body::idempotency_key(headers)?.map(|key| {
        Key::new("api", &[who.as_bytes(), path.as_bytes(), key.as_bytes()], body, Some(now + KEY_LIFE_MS))
    });
    let (master, nonce) = (app.config.master_key.clone(), app.environment.bytes());
    let done = move |tx: &mut dyn Tx| -> Result<Result<Written, Answer>, ApiError> {
        let Some(key) = &key else { return work(tx).map(Ok) };
        match idempotency::claim(tx, key, now, now)? {
            Known::New => {}
            Known::Answered(answer) => return Ok(Err(answer)),
            Known::InProgress | Known::Conflict => {
                return Err(ApiError::new(
                    Code::IdempotencyConflict,
                    "this Idempotency-Key was used for something else; use a new one for new content",
                ));
            }
        }
        let (status, data) = work(tx)?;
        // An answer may hold a key that is shown this once: the database must not tell it.
        let body = seal(&master, nonce, &data)?;
        let answer = Answer::new(status.as_u16(), body);
        idempotency::answer(tx, key, now, &answer)?;
        Ok(Ok((status, data)))
    };
    match app.store.write::<_, ApiError, _>(done).await? {
        Ok((status, data)) => Ok(respond(status, data)),
        Err(first) => {
            let status = StatusCode::from_u16(first.status).map_err(ApiError::internal)?;
            let data = open(&app.config.master_key, &first.body)?;
            let mut response = respond(status, data);
            response.headers_mut().insert("idempotent-replayed", HeaderValue::from_static("true"));
            Ok(response)
        }
    }
}

fn respond(status: StatusCode, data: Value) -> Response {
    if status == StatusCode::NO_CONTENT {
        status.into_response()
    } else {
        (status, axum::Json(data)).into_response()
    }
}

/// Whose sealed answers are: nobody's but this table's.
const SEALED_FOR: &[u8] = b"answer";

fn seal(master: &MasterKey, nonce: [u8; 12], data: &Value) -> Result<String, ApiError> {
    let sealed = master.seal(nonce, SEALED_FOR, &data.to_string());
    sealed
        .map(|sealed| BASE64.encode(&sealed))
        .ok_or_else(|| ApiError::internal("an answer could not be sealed"))
}

fn open(master: &MasterKey, body: &str) -> Result<Value, ApiError> {
    let sealed = BASE64.decode(body.as_bytes()).map_err(ApiError::internal)?;
    let opened = master.open(SEALED_FOR, &sealed);
    let opened = opened.ok_or_else(|| ApiError::internal("an answer was sealed with another master key"))?;
    serde_json::from_str(&opened).map_err(ApiError::internal)
}

/// Reads in one snapshot.
pub(crate) async fn read<T, F>(app: &App, work: F) -> Result<T, ApiError>
where
    F: Fn(&mut dyn Tx) -> Result<T, ApiError> + Send + 'static,
    T: Send + 'static,
{
    app.store.read::<_, ApiError, _>(work).await
}

/// Nothing is there, as far as this caller may know.
pub(crate) fn not_found(what: &str) -> ApiError {
    ApiError::new(Code::NotFound, format_args!("there is no such {what}, or you may not see it"))
}
