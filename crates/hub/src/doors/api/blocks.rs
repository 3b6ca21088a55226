//! Whom the caller keeps out.

use super::answers::{
    Conflict, Forbidden, Invalid, Missing, Overloaded, TooFast, TooLarge, TooSlow, Unknown,
};
use super::consent::{AccountRef, Found, Whom};
use super::conversation::{MAX_BODY, MemberRequest, fields};
use super::{Items, read, value};
use crate::doors::relay::PageQuery;
use crate::error::ApiError;
use crate::extract::By;
use crate::route::{Route, Routes};
use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use chorus_app::AppState;
use chorus_app::caller::Caller;
use chorus_app::mail::MAX_ADDRESS;
use chorus_protocol::faults::Faults;
use chorus_protocol::ids::{BlockId, Principal, TraceId};
use chorus_protocol::relay::Code;
use chorus_protocol::time::rfc3339;
use chorus_store::accounts::same_email;
use chorus_store::blocks::{self, Block, Blocked};
use chorus_store::{StoreError, Tx};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::routes;

/// The most that one agent or account keeps out.
const MOST: i64 = 1000;

pub(crate) fn routes() -> Routes {
    Routes::default().at(Route::API, routes!(list, block)).at(Route::API, routes!(unblock))
}

/// Somebody who is kept out.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BlockView {
    /// The block's id.
    #[schema(example = "blk_0190a3c4d5e67f8090a1b2c3d4e5f607")]
    id: String,
    /// Whom it is about, as it was said.
    who: String,
    /// Since when.
    created_at: String,
}

impl From<Block> for BlockView {
    fn from(block: Block) -> Self {
        Self { id: block.id.to_string(), who: block.label, created_at: rfc3339(block.created_at) }
    }
}

/// Keeps somebody out, unless so many are that no more may be.
pub(super) fn keep_out(
    tx: &mut dyn Tx,
    blocker: Principal,
    blocked: &Blocked,
    new: &Block,
    trace: TraceId,
) -> Result<Block, ApiError> {
    if blocks::count(tx, blocker)? >= MOST {
        let full = format_args!("you keep {MOST} out; let somebody in first whom you need not keep out");
        return Err(ApiError::new(Code::Conflict, full));
    }
    Ok(blocks::insert(tx, blocker, blocked, new, trace)?)
}

/// Whom to keep out.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes a body for the OpenAPI document")]
struct BlockBody {
    /// An agent's address or id, or an account's email address or id.
    #[schema(
        max_length = 254,
        pattern = "^([A-Za-z0-9_-][A-Za-z0-9._-]{0,127}|[!-?A-~]+@[!-?A-~]+)$",
        example = "mallory@mail.example"
    )]
    who: String,
}

/// Whom it is about. A person need not exist.
fn blocked(tx: &mut dyn Tx, whom: &Whom) -> Result<Blocked, ApiError> {
    Ok(match whom.find(tx)? {
        Found::Agent(agent) => Blocked::Principal(agent.id.into()),
        Found::Person(AccountRef::Id(id)) => Blocked::Principal((*id).into()),
        Found::Person(AccountRef::Email(email)) => Blocked::Email(email.clone()),
    })
}

fn is_self(caller: &Caller, blocked: &Blocked) -> bool {
    match (caller, blocked) {
        (Caller::Account(person), Blocked::Email(email)) => same_email(&person.email, email),
        (caller, Blocked::Principal(who)) => caller.principal().ok() == Some(*who),
        _ => false,
    }
}

/// Keep somebody out
///
/// It cannot write to you, add you or your agents to anything, or invite you; nor can its agents. It is not told, but where it
/// writes to an agent of yours: 403. The answer is the same whether or not there is such a person.
#[utoipa::path(post, path = "/api/v1/me/blocks", tag = "people", security(("key" = [])),
    params(("Idempotency-Key" = Option<String>, Header, nullable = false, max_length = 255, pattern = r"^[!-~]([\t -~]*[!-~])?$",
            description = "The same for every retry of the same request")),
    request_body(content_type = "application/json", content = BlockBody),
    responses((status = 201, description = "Kept out, now or before", body = BlockView),
              Invalid, Unknown, Forbidden, Missing, Conflict, TooSlow, TooLarge, TooFast, Overloaded))]
async fn block(State(app): State<AppState>, request: Request) -> Result<Response, ApiError> {
    let asked = MemberRequest::read(&app, request, MAX_BODY).await?;
    let (whom, label) = fields(&asked.json()?, |fields| {
        let who = fields.required_text("who").unwrap_or_default();
        let whom = Whom::anybody(&app, who);
        if whom.is_none() && !who.is_empty() {
            fields.fault("who", "must be an agent's address or id, or an account's email address or id");
        }
        fields.check_length("who", who, 1, MAX_ADDRESS);
        (whom, who.to_owned())
    })?;
    let whom = whom.ok_or_else(|| ApiError::internal("nobody, and no fault"))?;
    let new = Block { id: BlockId(app.sources.uuid_v7()), label, created_at: app.now() };
    let (caller, trace) = (asked.caller().clone(), TraceId(app.sources.uuid_v7()));
    asked
        .write(&app, move |tx| {
            let blocked = blocked(tx, &whom)?;
            if is_self(&caller, &blocked) {
                return Err(Faults::one("who", "must be somebody else").into());
            }
            let block = keep_out(tx, caller.principal()?, &blocked, &new, trace)?;
            Ok((StatusCode::CREATED, value(&BlockView::from(block))?))
        })
        .await
}

fn block_id(name: &str, text: &str) -> Result<BlockId, ApiError> {
    BlockId::parse(text).ok_or_else(|| Faults::one(name, "must be the id of a block: blk_…").into())
}

/// List whom you keep out
#[utoipa::path(get, path = "/api/v1/me/blocks", operation_id = "list_blocks", tag = "people", security(("key" = [])),
    params(("after" = Option<String>, Query, pattern = "^(blk_[0-9a-f]{32})?$", description = "`next` of the page before"),
           ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "50 unless said")),
    responses((status = 200, description = "A page", body = Items<BlockView>),
              Invalid, Unknown, Forbidden, TooFast, Overloaded))]
async fn list(
    State(app): State<AppState>,
    By(caller): By,
    uri: Uri,
) -> Result<Json<Items<BlockView>>, ApiError> {
    let (who, PageQuery { after, limit }) = (caller.principal()?, PageQuery::parse(&uri)?);
    let after = after.map(|after| block_id("after", &after)).transpose()?;
    let found = read(&app, move |tx| Ok(blocks::page(tx, who, after, limit + 1)?)).await?;
    let found = found.into_iter().map(BlockView::from).collect();
    Ok(Json(super::page(&app, found, limit, |last: &BlockView| last.id.clone())))
}

/// Let somebody in again
///
/// Nothing happens if it was not kept out by this.
#[utoipa::path(delete, path = "/api/v1/me/blocks/{id}", tag = "people", security(("key" = [])),
    params(("id" = String, Path, pattern = "^blk_[0-9a-f]{32}$", description = "The block's id")),
    responses((status = 204, description = "Not kept out by it (any more)"),
              Invalid, Unknown, Forbidden, TooFast, Overloaded))]
async fn unblock(
    State(app): State<AppState>,
    By(caller): By,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    let (who, id) = (caller.principal()?, block_id("id", &id)?);
    app.store.write::<_, StoreError, _>(move |tx: &mut dyn Tx| blocks::remove(tx, who, id)).await?;
    Ok(StatusCode::NO_CONTENT)
}
