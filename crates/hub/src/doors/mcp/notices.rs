//! Notifications of changed documents: subscriptions and their rendering. The id of a notification is the
//! position of its change.

use super::words::{Failure, failure, log, session_id};
use chorus_app::mcp_sessions::{Change, Changes, MAX_SUBSCRIPTIONS, Watched};
use chorus_app::tools::{Context, document_slug, document_uri};
use chorus_mcp::{Notice, Notices, Wants};
use chorus_protocol::ids::ConversationId;
use chorus_protocol::rpc::RpcError;
use futures_util::stream::{self, StreamExt};
use serde_json::{Map, Value, json};

pub(super) async fn open(context: &Context, wants: Wants) -> Result<Notices, Failure> {
    let (watched, after, accepted) = match wants {
        Wants::Session { id, after } => {
            let session = session_id(&id).ok_or_else(|| RpcError::params("there is no such session"))?;
            (Watched::Session(session), after, Value::Null)
        }
        Wants::Filter(filter) => {
            let (watched, accepted) = read_filter(context, &filter)?;
            (watched, None, accepted)
        }
    };
    let (changes, conversation) =
        (Changes::open(context, watched, after).await.map_err(failure)?, context.conversation);
    let stream = stream::unfold(changes, move |mut changes| async move {
        match changes.next().await {
            Ok(change) => Some((notice(conversation, change?), changes)),
            Err(error) => {
                log(&error);
                None
            }
        }
    });
    Ok(Notices { accepted, stream: stream.boxed() })
}

/// Renders a change as a notification.
fn notice(conversation: ConversationId, Change { place, changed }: Change) -> Notice {
    let (method, params) = match changed {
        Some(slug) => {
            let uri = document_uri(conversation, &slug);
            ("notifications/resources/updated", Map::from_iter([("uri".to_owned(), json!(uri))]))
        }
        None => ("notifications/resources/list_changed", Map::new()),
    };
    Notice { id: Some(place), method, params }
}

/// Returns the part of a filter that this server supports.
fn read_filter(context: &Context, filter: &Map<String, Value>) -> Result<(Watched, Value), RpcError> {
    let mut accepted = Map::new();
    let added = filter.get("resourcesListChanged") == Some(&Value::Bool(true));
    if added {
        accepted.insert("resourcesListChanged".into(), json!(true));
    }
    let named = match filter.get("resourceSubscriptions") {
        None => vec![],
        Some(Value::Array(uris)) if uris.len() <= MAX_SUBSCRIPTIONS => {
            uris.iter().filter_map(Value::as_str).collect()
        }
        Some(_) => {
            return Err(RpcError::params(format_args!(
                "notifications.resourceSubscriptions: must be at most {MAX_SUBSCRIPTIONS} URIs"
            )));
        }
    };
    let slugs = named.iter().filter_map(|uri| document_slug(context.conversation, uri));
    let slugs: Vec<_> = slugs.map(str::to_owned).collect();
    if !slugs.is_empty() {
        let uris: Vec<_> = slugs.iter().map(|slug| document_uri(context.conversation, slug)).collect();
        accepted.insert("resourceSubscriptions".into(), json!(uris));
    }
    Ok((Watched::These(slugs, added), Value::Object(accepted)))
}
