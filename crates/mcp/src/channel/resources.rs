//! Documents as resources: `chorus://{channel}/artifacts/{slug}`.

use super::{Channel, Hub, text};
use crate::revision::Revision;
use crate::rpc::RpcError;
use crate::service::Ask;
use crate::sessions;
use chorus_protocol::ids::ConversationId;
use chorus_protocol::page;
use chorus_protocol::time::rfc3339;
use chorus_store::artifacts::{self, Artifact};
use chorus_store::conversation;
use serde_json::{Map, Value, json};

/// How many documents a page of the list holds.
const PAGE: i64 = 100;
/// The longest slug.
const MAX_SLUG: usize = 64;

/// The address of a document.
pub(super) fn uri(channel: ConversationId, slug: &str) -> String {
    format!("chorus://{channel}/artifacts/{slug}")
}

/// The document of this channel that an address names, if it can be one.
pub(super) fn slug(channel: ConversationId, uri: &str) -> Option<&str> {
    let slug =
        uri.strip_prefix("chorus://")?.strip_prefix(&channel.to_string())?.strip_prefix("/artifacts/")?;
    let sign = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    ((1..=MAX_SLUG).contains(&slug.len()) && slug.bytes().all(sign)).then_some(slug)
}

fn listed(id: ConversationId, artifact: &Artifact) -> Value {
    json!({
        "uri": uri(id, &artifact.slug),
        "name": artifact.slug,
        "title": artifact.title,
        "description": format!("A document of this channel, at version {}", artifact.version),
        "mimeType": artifact.content_type,
        "annotations": {"lastModified": rfc3339(artifact.created_at)},
    })
}

impl<H: Hub> Channel<H> {
    pub(super) async fn list_resources(&self, params: &Map<String, Value>) -> Result<Value, RpcError> {
        let after = match params.get("cursor") {
            None => String::new(),
            Some(Value::String(cursor)) if cursor.len() <= MAX_SLUG => cursor.clone(),
            Some(_) => return Err(RpcError::params("cursor: must be nextCursor of a page")),
        };
        let (id, who) = (self.id, self.pass.who);
        let found = self.read(move |tx| {
            conversation::as_reader(tx, id, who)?;
            Ok(artifacts::page(tx, id, &after, PAGE + 1)?)
        });
        let mut found = found.await?;
        let more = found.len() as i64 > PAGE;
        found.truncate(PAGE as usize);
        let mut resources: Vec<_> = found.iter().map(|artifact| listed(id, artifact)).collect();
        let more = page::cut(&mut resources, self.page_bytes()) || more;
        let next = resources.last().filter(|_| more).map(|last| last["name"].clone());
        let mut result = json!({"resources": resources});
        if let Some(next) = next {
            result["nextCursor"] = next;
        }
        Ok(result)
    }

    pub(super) fn resource_templates(&self) -> Value {
        json!({"resourceTemplates": [{
            "uriTemplate": format!("chorus://{}/artifacts/{{slug}}", self.id),
            "name": "artifact",
            "title": "A document of this channel",
            "description": "Read a document in its newest version by its slug; artifact_list tells the slugs.",
        }]})
    }

    pub(super) async fn read_resource(
        &self,
        params: &Map<String, Value>,
        revision: Revision,
    ) -> Result<Value, RpcError> {
        let asked = text(params, "uri")?;
        let found = match slug(self.id, asked) {
            Some(slug) => self.artifact(slug, None).await?,
            None => None,
        };
        let found = found.ok_or_else(|| not_found(asked, revision))?;
        Ok(json!({"contents": [{"uri": asked, "mimeType": found.content_type, "text": found.content}]}))
    }

    /// A document, if there is one.
    pub(super) async fn artifact(
        &self,
        slug: &str,
        version: Option<i64>,
    ) -> Result<Option<Artifact>, super::Failure> {
        let (id, who, slug) = (self.id, self.pass.who, slug.to_owned());
        let found = self.read(move |tx| {
            let (conversation, _) = conversation::as_reader(tx, id, who)?;
            Ok(artifacts::get_as(tx, &conversation, who, &slug, version)?)
        });
        found.await
    }

    pub(super) async fn subscribe(&self, ask: &Ask, wanted: bool) -> Result<Value, RpcError> {
        let uri = text(&ask.params, "uri")?;
        let slug = slug(self.id, uri).ok_or_else(|| not_found(uri, ask.revision))?.to_owned();
        let session = ask.session.clone().ok_or_else(|| RpcError::method(&ask.method))?;
        let place = self.place();
        let done = self.write(move |tx| Ok(sessions::subscribe(tx, place, &session, &slug, wanted)?)).await?;
        if !done {
            let what =
                format!("a session can be subscribed to {} documents at most", sessions::MAX_SUBSCRIPTIONS);
            return Err(RpcError::params(what));
        }
        Ok(json!({}))
    }
}

fn not_found(uri: &str, revision: Revision) -> RpcError {
    let code = match revision {
        Revision::Stateless => RpcError::INVALID_PARAMS,
        Revision::WithSessions => RpcError::RESOURCE_NOT_FOUND,
    };
    RpcError::new(code, "there is no such document in this channel; resources/list tells what there is")
        .with(json!({"uri": uri}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn addresses_are_of_this_channel() {
        let (here, there) = (ConversationId(Uuid::from_u128(1)), ConversationId(Uuid::from_u128(2)));
        assert_eq!(slug(here, &uri(here, "auth-spec")), Some("auth-spec"));
        assert_eq!(slug(there, &uri(here, "auth-spec")), None);
        for wrong in ["", "x/y", "UPPER", "a?b", "../x", &"x".repeat(65)] {
            assert_eq!(slug(here, &uri(here, wrong)), None, "{wrong}");
        }
        assert_eq!(slug(here, "https://example.org/artifacts/x"), None);
    }
}
