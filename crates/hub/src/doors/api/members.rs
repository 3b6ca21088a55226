//! Who is in a conversation: adding, listing and removing members.

use super::answers::{
    Conflict, Forbidden, Invalid, Missing, Overloaded, TooFast, TooLarge, TooSlow, Unknown,
};
use super::conversation::{
    MAX_BODY, MemberRequest, Name, conversation_id, fields, handle, is_handle, not_of_two, only, roles,
};
use super::{Items, not_found, read, value};
use crate::app::{App, AppState};
use crate::caller::Caller;
use crate::doors::relay::bodies::AgentAddress;
use crate::doors::relay::{AgentRef, PageQuery};
use crate::error::ApiError;
use crate::mail::check_address;
use crate::views::MemberView;
use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use chorus_protocol::ids::{AccountId, Principal};
use chorus_protocol::mentions::MAX_HANDLE;
use chorus_store::audit::{Action, Actor, Subject};
use chorus_store::channel::{self, ChannelError, Handle, Newcomer};
use chorus_store::{StoreError, Tx, accounts, members};
use serde_json::json;
use std::sync::Arc;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(list, add)).routes(routes!(remove))
}

/// Somebody as a body names it.
#[derive(Debug, Clone)]
pub(super) struct Whom {
    agent: Option<AgentRef>,
    account: Option<AccountRef>,
}

#[derive(Debug, Clone)]
enum AccountRef {
    Id(AccountId),
    Email(String),
}

impl AccountRef {
    fn parse(text: &str) -> Option<Self> {
        if let Some(id) = AccountId::parse(text) {
            return Some(Self::Id(id));
        }
        check_address(text).ok().map(|()| Self::Email(text.to_owned()))
    }
}

impl Whom {
    /// An agent by its address or id.
    fn agent(app: &App, text: &str) -> Option<Self> {
        AgentRef::parse(app, text).ok().map(|agent| Self { agent: Some(agent), account: None })
    }

    /// A person by its email address or id.
    fn account(text: &str) -> Option<Self> {
        AccountRef::parse(text).map(|account| Self { agent: None, account: Some(account) })
    }

    /// Either. An address that is an agent's is that agent's.
    pub(super) fn anybody(app: &App, text: &str) -> Option<Self> {
        let found = Self { agent: AgentRef::parse(app, text).ok(), account: AccountRef::parse(text) };
        (found.agent.is_some() || found.account.is_some()).then_some(found)
    }

    /// Who it is, and what it would be called.
    pub(super) fn find(&self, tx: &mut dyn Tx) -> Result<Option<(Principal, String)>, StoreError> {
        if let Some(agent) = &self.agent
            && let Some(agent) = agent.find(tx)?
        {
            return Ok(Some((agent.id.into(), agent_handle(&agent.name))));
        }
        let account = match &self.account {
            Some(AccountRef::Id(id)) => accounts::by_id(tx, *id)?,
            Some(AccountRef::Email(email)) => accounts::by_email(tx, email)?,
            None => None,
        };
        Ok(account.map(|account| (account.id.into(), person_handle(&account.name, &account.email))))
    }
}

/// What the caller is called where it does not say.
pub(super) fn own_handle(caller: &Caller) -> String {
    match caller {
        Caller::Agent(identity) => agent_handle(&identity.name),
        Caller::Account(person) => person_handle(&person.name, &person.email),
        Caller::Operator | Caller::Nobody => caller.kind().to_owned(),
    }
}

fn agent_handle(name: &str) -> String {
    name.chars().take(MAX_HANDLE).collect()
}

fn person_handle(name: &str, email: &str) -> String {
    let local = email.split_once('@').map_or(email, |(local, _)| local);
    let mut slugs = [name, local].into_iter().map(slug).filter(|slug| !slug.is_empty());
    slugs.next().unwrap_or_else(|| "member".into())
}

/// A text as a handle: lower case, and one dash for whatever a handle cannot have.
fn slug(text: &str) -> String {
    let mut slug = String::new();
    for sign in text.chars().flat_map(char::to_lowercase) {
        if sign.is_ascii_alphanumeric() || matches!(sign, '.' | '_' | '-') {
            slug.push(sign);
        } else if !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let apart = ['.', '_', '-'];
    slug.trim_matches(apart).chars().take(MAX_HANDLE).collect::<String>().trim_end_matches(apart).to_owned()
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

/// Add a member
///
/// The owner and the leads may.
#[utoipa::path(post, path = "/api/v1/channels/{id}/members", tag = "conversations", security(("key" = [])),
    params(("id" = String, Path, description = "Of a conversation you are a member of"),
           ("Idempotency-Key" = Option<String>, Header, nullable = false, max_length = 255, pattern = r"^[!-~]([\t -~]*[!-~])?$",
            description = "The same for every retry of the same request")),
    request_body(content_type = "application/json", content = NewMemberBody),
    responses((status = 201, description = "A member from now on", body = MemberView),
              Invalid, Unknown, Forbidden, Missing, Conflict, TooSlow, TooLarge, TooFast, Overloaded))]
async fn add(
    State(app): State<AppState>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, ApiError> {
    let asked = MemberRequest::read(&app, request, MAX_BODY).await?;
    let (whom, handle, roles, lead) = fields(&asked.json()?, |fields| {
        let whom = match (fields.optional_text("agent"), fields.optional_text("account")) {
            (Some(agent), None) => {
                Whom::agent(&app, agent).ok_or(("agent", "must be an agent's address or id"))
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
    let act = asked.act(&app, conversation_id(&id)?);
    let (hub, origin) = (Arc::clone(&app), asked.origin.clone());
    asked
        .write(&app, move |tx| {
            // Strangers are not told who there is.
            let (conversation, _) = channel::enter(tx, act.conversation, act.author)?;
            not_of_two(&conversation)?;
            let (principal, own) = whom.find(tx)?.ok_or_else(|| not_found("agent or account"))?;
            let handle = handle.clone().map_or(Handle::Like(own), Handle::Exactly);
            let new = Newcomer { principal, handle, roles: roles.clone(), lead };
            let member = channel::add_member(tx, &act, &new)
                .map_err(only("the owner of the channel and its leads add members"))?;
            let detail =
                json!({"member": member.principal.to_string(), "handle": member.handle, "lead": lead});
            let (actor, subject) = (Actor::Principal(act.author), Subject::Channel(act.conversation));
            origin.record_as(tx, &hub, actor, Action::MemberAdded, subject, detail)?;
            Ok((StatusCode::CREATED, value(&MemberView::from(member))?))
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
    caller: Caller,
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
    Ok(Json(Items::of(&app, found, limit, |last: &MemberView| last.handle.clone())))
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
    let (hub, origin) = (Arc::clone(&app), asked.origin.clone());
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
                origin.record_as(tx, &hub, actor, Action::MemberRemoved, subject, detail)?;
            }
            Ok((StatusCode::NO_CONTENT, ().into()))
        })
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_called_by_their_names() {
        for (name, email, handle) in [
            ("Anna", "a@example.org", "anna"),
            ("Anna  Lee-Smith (dev)", "a@example.org", "anna-lee-smith-dev"),
            ("Анна", "anna.k@example.org", "anna.k"),
            ("", "Anna+x@example.org", "anna-x"),
            ("", "-@example.org", "member"),
        ] {
            assert_eq!(person_handle(name, email), handle);
        }
        assert_eq!(slug(&"x.".repeat(60)).len(), 63);
    }
}
