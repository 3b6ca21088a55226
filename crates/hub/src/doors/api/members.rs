//! Who is in a conversation: adding, listing and removing members.

use super::answers::{
    Conflict, Forbidden, Invalid, Missing, Overloaded, TooFast, TooLarge, TooSlow, Unknown,
};
use super::consent::{self, Found, Invited, MAY_ADD, Way, Whom, agent_handle, person_handle};
use super::conversation::{
    AnyRequest, MAX_BODY, MemberRequest, Name, act_in, conversation_id, fields, handle, is_handle,
    not_of_two, only, roles,
};
use super::{Items, Written, not_found, read, value};
use crate::doors::relay::PageQuery;
use crate::doors::relay::bodies::AgentAddress;
use crate::error::ApiError;
use crate::extract::By;
use crate::route::{Route, Routes};
use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use chorus_app::caller::Caller;
use chorus_app::mail_limits::Asker;
use chorus_app::views::MemberView;
use chorus_app::{App, AppState};
use chorus_protocol::ids::Principal;
use chorus_store::audit::{Action, Actor, Subject};
use chorus_store::channel::{self, Act, ChannelError, Handle, Newcomer};
use chorus_store::invitations::Invitation;
use chorus_store::members::Member;
use chorus_store::{Tx, members};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::runtime::Handle as Runtime;
use utoipa::ToSchema;
use utoipa_axum::routes;

pub(super) fn routes() -> Routes {
    Routes::default().at(Route::API, routes!(list, add)).at(Route::API, routes!(remove))
}

/// Somebody to be added: an agent or a person, not both.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes a body for the OpenAPI document")]
enum NewMemberBody {
    Agent(NewAgentBody),
    Account(NewPersonBody),
}

/// An agent to be added.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes a body for the OpenAPI document")]
struct NewAgentBody {
    /// Its address or id.
    agent: AgentAddress,
    /// What it is called here; unless said, a form of its name, with a number added when that is taken.
    handle: Option<Name>,
    /// What it does here.
    #[schema(max_items = 16)]
    roles: Option<Vec<Name>>,
    /// Whether it answers for the others: a lead may add and remove members.
    lead: Option<bool>,
}

/// A person to be added.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes a body for the OpenAPI document")]
struct NewPersonBody {
    /// The account's email address or id.
    #[schema(
        max_length = 254,
        pattern = "^(acc_[0-9a-f]{32}|[!-?A-~]+@[!-?A-~]+)$",
        example = "anna@example.org"
    )]
    account: String,
    /// What it is called here; unless said, a form of its name, with a number added when that is taken.
    handle: Option<Name>,
    /// What it does here.
    #[schema(max_items = 16)]
    roles: Option<Vec<Name>>,
    /// Whether it answers for the others: a lead may add and remove members.
    lead: Option<bool>,
}

/// Who is to be added, and as what.
#[derive(Clone)]
struct Addition {
    whom: Whom,
    handle: Option<String>,
    roles: Vec<String>,
    lead: bool,
}

impl Addition {
    fn read(app: &App, body: &Value) -> Result<Self, ApiError> {
        let (whom, handle, roles, lead) = fields(body, |fields| {
            let whom = match (fields.optional_text("agent"), fields.optional_text("account")) {
                (Some(agent), None) => {
                    Whom::agent(app, agent).ok_or(("agent", "must be an agent's address or id"))
                }
                (None, Some(account)) => {
                    Whom::account(account).ok_or(("account", "must be an account's email address or id"))
                }
                _ => Err(("body", "must have either an agent or an account")),
            };
            let whom = whom.map_err(|(name, fault)| fields.fault(name, fault)).ok();
            (whom, handle(fields, "handle"), roles(fields), fields.flag("lead"))
        })?;
        let whom = whom.ok_or_else(|| ApiError::internal("nobody, and no fault"))?;
        Ok(Self { whom, handle, roles, lead })
    }

    /// The newcomer it makes of somebody that is called `own` where nobody says.
    fn newcomer(&self, principal: impl Into<Principal>, own: String) -> Newcomer {
        let handle = self.handle.clone().map_or(Handle::Like(own), Handle::Exactly);
        Newcomer { principal: principal.into(), handle, roles: self.roles.clone(), lead: self.lead }
    }

    /// By the operator: in at once, and by its own act.
    fn by_operator(
        &self,
        app: &App,
        tx: &mut dyn Tx,
        act_of: &dyn Fn(Principal) -> Act,
    ) -> Result<Written, ApiError> {
        let new = match self.whom.find(tx)? {
            Found::Agent(agent) => self.newcomer(agent.id, agent_handle(&agent.name)),
            Found::Person(person) => {
                let account = person.find(tx)?.0.ok_or_else(|| not_found("account"))?;
                self.newcomer(account.id, person_handle(&account.name, &account.email))
            }
        };
        joined(consent::admit(app, tx, &act_of(new.principal), &new)?)
    }

    /// By the owner or a lead.
    fn by_member(
        &self,
        (app, runtime, asker): (&AppState, &Runtime, Asker),
        tx: &mut dyn Tx,
        act: &Act,
    ) -> Result<Written, ApiError> {
        // Strangers are not told who there is, nor is who may not add anybody.
        let (conversation, _) = channel::look(tx, act.conversation, act.author)?;
        not_of_two(&conversation)?;
        channel::may_add(tx, act.conversation, act.author).map_err(only(MAY_ADD))?;
        let (account, invitee) = match self.whom.find(tx)? {
            Found::Agent(agent) => {
                consent::check_agent(tx, act.author, &agent)?;
                let new = self.newcomer(agent.id, agent_handle(&agent.name));
                return joined(consent::add(app, tx, act, &new)?);
            }
            Found::Person(person) => person.find(tx)?,
        };
        match (consent::way(tx, act.author, account.as_ref())?, account) {
            (Way::AtOnce, Some(account)) => {
                let new = self.newcomer(account.id, person_handle(&account.name, &account.email));
                joined(consent::add(app, tx, act, &new)?)
            }
            (Way::Asked { hidden }, _) => {
                let new = Invitation {
                    conversation: Some(act.conversation),
                    handle: self.handle.clone(),
                    roles: self.roles.clone(),
                    lead: self.lead,
                    ..consent::invitation(act)
                };
                consent::invite((app, runtime, asker), tx, act, &new, &invitee, hidden)
            }
            (Way::AtOnce, None) => Err(ApiError::internal("nobody cannot be let in")),
        }
    }
}

fn joined(member: Member) -> Result<Written, ApiError> {
    Ok((StatusCode::CREATED, value(&MemberView::from(member))?))
}

/// Add a member
///
/// The owner and the leads may, and the operator. A person you share no conversation with is asked first: 202, the same for
/// every address, whether or not somebody has it. An agent that belongs to somebody is added by its owner, and by whoever
/// shares a channel with it or a conversation with its owner.
#[utoipa::path(post, path = "/api/v1/channels/{id}/members", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "Of a conversation you are a member of"),
           ("Idempotency-Key" = Option<String>, Header, nullable = false, max_length = 255, pattern = r"^[!-~]([\t -~]*[!-~])?$",
            description = "The same for every retry of the same request")),
    request_body(content_type = "application/json", content = NewMemberBody),
    responses((status = 201, description = "A member from now on", body = MemberView),
              (status = 202, description = "If somebody has this address, it is asked", body = Invited),
              Invalid, Unknown, Forbidden, Missing, Conflict, TooSlow, TooLarge, TooFast, Overloaded))]
async fn add(
    State(app): State<AppState>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, ApiError> {
    let may = |caller: &Caller| match caller {
        Caller::Operator => Ok(()),
        caller => Ok(caller.principal().map(drop)?),
    };
    let asked = AnyRequest::read(&app, request, MAX_BODY, may).await?;
    let by = match asked.caller() {
        Caller::Operator => None,
        caller => Some(caller.principal()?),
    };
    let (new, hub, runtime) = (Addition::read(&app, &asked.json()?)?, Arc::clone(&app), Runtime::current());
    let conversation = conversation_id(&id)?;
    let (act_of, caller, context) =
        (act_in(&app, conversation), asked.caller().clone(), asked.request_context());
    asked
        .write(&app, move |tx| {
            let (status, member) = match by {
                None => new.by_operator(&hub, tx, &act_of)?,
                Some(who) => new.by_member((&hub, &runtime, context.asker()), tx, &act_of(who))?,
            };
            if status == StatusCode::CREATED {
                let detail =
                    json!({"member": member["id"], "handle": member["handle"], "lead": member["lead"]});
                let subject = Subject::Channel(conversation);
                context.record(tx, &hub, &caller, Action::MemberAdded, subject, detail)?;
            }
            Ok((status, member))
        })
        .await
}

/// List the members
///
/// In the order of their handles.
#[utoipa::path(get, path = "/api/v1/channels/{id}/members", operation_id = "list_members", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "Of a conversation you are a member of"),
           ("after" = Option<String>, Query, description = "`next` of the page before"),
           ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "50 unless said")),
    responses((status = 200, description = "A page", body = Items<MemberView>),
              Invalid, Unknown, Forbidden, Missing, TooFast, Overloaded))]
async fn list(
    State(app): State<AppState>,
    By(caller): By,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Json<Items<MemberView>>, ApiError> {
    let (who, id, query) = (caller.principal()?, conversation_id(&id)?, PageQuery::parse(&uri)?);
    let (after, limit) = (query.after.unwrap_or_default(), query.limit);
    let found = read(&app, move |tx| {
        channel::look(tx, id, who)?;
        Ok(members::page(tx, id, &after, limit + 1)?)
    });
    let found = found.await?.into_iter().map(MemberView::from).collect();
    Ok(Json(super::page(&app, found, limit, |last: &MemberView| last.handle.clone())))
}

/// Remove a member
///
/// Everybody may leave but the owner, who makes somebody else the owner first, or archives the channel. The owner may remove
/// anybody, and so may the leads.
#[utoipa::path(delete, path = "/api/v1/channels/{id}/members/{handle}", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "Of a conversation you are a member of"),
           ("handle" = String, Path, description = "What the member is called here")),
    responses((status = 204, description = "No member any more"),
              Invalid, Unknown, Forbidden, Missing, Conflict, TooSlow, TooLarge, TooFast, Overloaded))]
async fn remove(
    State(app): State<AppState>,
    Path((id, handle)): Path<(String, String)>,
    request: Request,
) -> Result<Response, ApiError> {
    let asked = MemberRequest::read(&app, request, MAX_BODY).await?;
    let act = asked.act(&app, conversation_id(&id)?);
    let (hub, context) = (Arc::clone(&app), asked.request_context());
    asked
        .write(&app, move |tx| {
            let (conversation, _) = channel::enter(tx, act.conversation, act.author)?;
            not_of_two(&conversation)?;
            if !is_handle(&handle) {
                return Err(ChannelError::NoHandle(handle.clone()).into());
            }
            let gone = members::by_handle(tx, act.conversation, &handle)?;
            channel::remove_member(tx, &act, &handle).map_err(only(
                "the owner of the channel and its leads remove others; and the owner is removed by nobody",
            ))?;
            // Who leaves by itself takes nothing from anybody.
            if let Some(gone) = gone.filter(|gone| gone.principal != act.author) {
                let detail = json!({"member": gone.principal.to_string(), "handle": gone.handle});
                let (actor, subject) = (Actor::Principal(act.author), Subject::Channel(act.conversation));
                context.record_as(tx, &hub, actor, Action::MemberRemoved, subject, detail)?;
            }
            Ok((StatusCode::NO_CONTENT, ().into()))
        })
        .await
}
