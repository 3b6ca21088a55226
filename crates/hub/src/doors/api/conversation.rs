//! What the doors of conversations have in common: requests, what may stand in their bodies, and pages.

use super::Written;
use crate::doors::body;
use crate::error::ApiError;
use axum::extract::Request;
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use bytes::Bytes;
use chorus_app::App;
use chorus_app::audit::RequestContext;
use chorus_app::caller::Caller;
use chorus_protocol::faults::{Faults, Fields};
use chorus_protocol::ids::{ConversationId, EventId, Principal, TraceId};
use chorus_protocol::mentions::MAX_HANDLE;
use chorus_protocol::relay::Code;
use chorus_protocol::{json, redact};
use chorus_store::Tx;
use chorus_store::channel::{Act, ChannelError};
use chorus_store::conversations::{Conversation, ConversationKind};
use serde_json::Value;
use std::borrow::Cow;
use utoipa::ToSchema;

/// The largest body of a request, in bytes, unless its door says otherwise.
pub(super) const MAX_BODY: usize = 256 * 1024;
/// The most roles of a member.
const MAX_ROLES: usize = 16;

/// What a member is called, or what it does.
#[derive(ToSchema)]
#[schema(pattern = "^[A-Za-z0-9._-]{1,64}$", example = "bob")]
#[expect(dead_code, reason = "describes a text for the OpenAPI document")]
pub(super) struct Name(String);

/// A request, with its body.
pub(super) struct AnyRequest {
    caller: Caller,
    /// What was asked for: the method and the path.
    what: String,
    headers: HeaderMap,
    bytes: Bytes,
    context: RequestContext,
}

impl AnyRequest {
    /// Reads a request whose body may have so many bytes, if its caller may send one.
    pub(super) async fn read(
        app: &App,
        request: Request,
        limit: usize,
        may: impl FnOnce(&Caller) -> Result<(), ApiError>,
    ) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        let caller = parts.extensions.get::<Caller>().cloned();
        let caller = caller.ok_or_else(|| ApiError::internal("a request without a caller"))?;
        may(&caller)?;
        let context = parts.extensions.get::<RequestContext>().cloned();
        let context = context.ok_or_else(|| ApiError::internal("a request without a context"))?;
        let bytes = body::read(app, &parts.headers, body, limit).await?;
        let what = format!("{} {}", parts.method, parts.uri.path());
        Ok(Self { caller, what, headers: parts.headers, bytes, context })
    }

    pub(super) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Where it came from.
    pub(super) fn request_context(&self) -> RequestContext {
        self.context.clone()
    }

    /// The body.
    pub(super) fn json(&self) -> Result<Value, ApiError> {
        json::parse(&self.bytes).map_err(ApiError::validation)
    }

    /// Does it, once for the same `Idempotency-Key`.
    pub(super) async fn write<F>(&self, app: &App, work: F) -> Result<Response, ApiError>
    where
        F: Fn(&mut dyn Tx) -> Result<Written, ApiError> + Send + 'static,
    {
        super::write(app, &self.caller, &self.headers, &self.what, &self.bytes, work).await
    }
}

/// Something that somebody does in a conversation now.
pub(super) fn act_in(app: &App, conversation: ConversationId) -> impl Fn(Principal) -> Act + Send + use<> {
    let (event, trace) = (EventId(app.sources.uuid_v7()), TraceId(app.sources.uuid_v7()));
    let now = app.now();
    move |author| Act { conversation, author, event, trace, now }
}

/// A request by somebody who can be a member of conversations.
pub(super) struct MemberRequest {
    request: AnyRequest,
    pub(super) who: Principal,
}

impl MemberRequest {
    /// Reads a request whose body may have so many bytes.
    pub(super) async fn read(app: &App, request: Request, limit: usize) -> Result<Self, ApiError> {
        let may = |caller: &Caller| Ok(caller.principal().map(drop)?);
        let request = AnyRequest::read(app, request, limit, may).await?;
        let who = request.caller.principal()?;
        Ok(Self { request, who })
    }

    pub(super) fn caller(&self) -> &Caller {
        self.request.caller()
    }

    /// Where it came from.
    pub(super) fn request_context(&self) -> RequestContext {
        self.request.request_context()
    }

    /// The body.
    pub(super) fn json(&self) -> Result<Value, ApiError> {
        self.request.json()
    }

    /// Something that its caller does in a conversation.
    pub(super) fn act(&self, app: &App, conversation: ConversationId) -> Act {
        act_in(app, conversation)(self.who)
    }

    /// Does it, once for the same `Idempotency-Key`.
    pub(super) async fn write<F>(&self, app: &App, work: F) -> Result<Response, ApiError>
    where
        F: Fn(&mut dyn Tx) -> Result<Written, ApiError> + Send + 'static,
    {
        self.request.write(app, work).await
    }
}

/// The conversation a path names. What is no id names none, as far as anybody may know.
pub(super) fn conversation_id(text: &str) -> Result<ConversationId, ApiError> {
    ConversationId::parse(text).ok_or_else(|| ChannelError::NotFound.into())
}

/// The message a path names.
pub(super) fn event_id(text: &str) -> Result<EventId, ApiError> {
    EventId::parse(text).ok_or_else(|| ChannelError::NoTarget.into())
}

/// Tells who is refused something for whom it is.
pub(super) fn only(who: &'static str) -> impl Fn(ChannelError) -> ApiError {
    move |error| match error {
        ChannelError::Forbidden => ApiError::new(Code::Forbidden, who),
        error => error.into(),
    }
}

/// Refuses what can be done with channels only.
pub(super) fn not_of_two(conversation: &Conversation) -> Result<(), ApiError> {
    if conversation.kind == ConversationKind::Dm {
        return Err(ApiError::new(
            Code::Forbidden,
            "a conversation of two stays as it is: nobody comes or goes, and it has no name of its own; make a channel",
        ));
    }
    Ok(())
}

/// The parts of a query, in order.
pub(super) fn query(uri: &Uri) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
    url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes())
}

/// Reads a body's members with `read`, or says everything that is wrong with them.
pub(super) fn fields<T>(body: &Value, read: impl FnOnce(&mut Fields<'_, '_>) -> T) -> Result<T, ApiError> {
    let mut faults = Faults::new();
    let found = Fields::of(body, "", &mut faults).map(|mut fields| read(&mut fields));
    match found {
        Some(found) if faults.is_empty() => Ok(found),
        _ => Err(faults.into()),
    }
}

/// A text of bounded length, if it is there.
pub(super) fn text(fields: &mut Fields<'_, '_>, name: &str, min: usize, max: usize) -> Option<String> {
    let text = fields.optional_text(name)?;
    fields.check_length(name, text, min, max);
    Some(text.to_owned())
}

/// The same, for what is shown in one line.
pub(super) fn line(fields: &mut Fields<'_, '_>, name: &str, max: usize) -> Option<String> {
    let line = text(fields, name, 1, max)?;
    if !line.is_empty() && (line.trim().is_empty() || line.contains(char::is_control)) {
        fields.fault(name, "must be one line with something in it");
    }
    Some(line)
}

/// One of these words, if it is there.
pub(super) fn word<T: Copy>(
    fields: &mut Fields<'_, '_>,
    name: &str,
    words: &[T],
    spelled: fn(T) -> &'static str,
) -> Option<T> {
    let text = fields.optional_text(name)?;
    let found = words.iter().copied().find(|word| spelled(*word) == text);
    if found.is_none() {
        let all: Vec<_> = words.iter().copied().map(spelled).collect();
        fields.fault(name, format_args!("must be one of {}", all.join(", ")));
    }
    found
}

/// Whether a member can be called this.
pub(super) fn is_handle(text: &str) -> bool {
    let sign = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=MAX_HANDLE).contains(&text.len()) && text.bytes().all(sign)
}

const HANDLE_RULE: &str = "must be 1 to 64 letters, digits, '.', '_' and '-'";

/// A handle, if it is there.
pub(super) fn handle(fields: &mut Fields<'_, '_>, name: &str) -> Option<String> {
    let handle = fields.optional_text(name)?;
    if !is_handle(handle) {
        fields.fault(name, HANDLE_RULE);
    }
    Some(handle.to_owned())
}

/// A list of handles or roles; absent is empty.
pub(super) fn handles(fields: &mut Fields<'_, '_>, name: &str, most: usize) -> Vec<String> {
    let Some(value) = fields.get(name) else { return vec![] };
    let list = value.as_array().filter(|list| list.len() <= most);
    let list = list.map(|list| list.iter().map(|item| item.as_str().filter(|text| is_handle(text))));
    let Some(list) = list.and_then(Iterator::collect::<Option<Vec<_>>>) else {
        fields.fault(
            name,
            format_args!("must be an array of at most {most} texts, each {}", &HANDLE_RULE[8..]),
        );
        return vec![];
    };
    list.into_iter().map(str::to_owned).collect()
}

/// What a member does.
pub(super) fn roles(fields: &mut Fields<'_, '_>) -> Vec<String> {
    let mut roles = handles(fields, "roles", MAX_ROLES);
    roles.sort_unstable();
    roles.dedup();
    roles
}

/// A text of more bytes than this is gone through while others' requests go on.
const LONG: usize = 32 * 1024;

/// A text without the credentials in it, and what they were.
pub(super) fn mask(text: String) -> (String, Vec<&'static str>) {
    let redacted = if text.len() > LONG {
        tokio::task::block_in_place(|| redact::redact(&text))
    } else {
        redact::redact(&text)
    };
    match redacted {
        Some(redacted) => (redacted.text, redacted.masked),
        None => (text, vec![]),
    }
}
