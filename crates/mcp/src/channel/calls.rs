//! What the tools do: arguments in, one transaction, a result out.

use super::tools::Tool;
use super::{Channel, Failure, Hub, input, resources, text};
use crate::rpc::{RpcError, object};
use chorus_protocol::page;
use chorus_protocol::redact::Masked;
use chorus_protocol::time::rfc3339;
use chorus_protocol::words::EventKind;
use chorus_store::artifacts::{self, Artifact};
use chorus_store::conversation::{self, ConversationError};
use chorus_store::idempotency::{self, Answer, Key, Known};
use chorus_store::log::{self, At, Filter};
use chorus_store::{StoreError, Tx, conversations, members, search};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// How long an idempotency key is remembered.
const KEY_LIFE_MS: i64 = 24 * 60 * 60 * 1000;
/// The longest status, in characters.
const MAX_STATUS: usize = 1000;

impl<H: Hub> Channel<H> {
    pub(super) async fn call_tool(&self, params: &Map<String, Value>) -> Result<Value, RpcError> {
        let name = text(params, "name")?;
        let none = Map::new();
        let arguments = match params.get("arguments") {
            None => &none,
            Some(Value::Object(arguments)) => arguments,
            Some(_) => return Err(RpcError::params("arguments: must be an object")),
        };
        let tool = Tool::named(name)
            .ok_or_else(|| RpcError::params(format!("there is no tool {name:?}; tools/list tells them")))?;
        match self.run(tool, arguments).await {
            Ok(result) => Ok(object([
                ("content", json!([{"type": "text", "text": result.to_string()}])),
                ("structuredContent", result),
                ("isError", false.into()),
            ])),
            Err(failure) => {
                failure.log();
                Ok(json!({"content": [{"type": "text", "text": failure.sentence()}], "isError": true}))
            }
        }
    }

    async fn run(&self, tool: Tool, arguments: &Map<String, Value>) -> Result<Value, Failure> {
        match tool {
            Tool::ListEvents => self.list_events(arguments).await,
            Tool::ReadThread => self.read_thread(arguments).await,
            Tool::SendMessage => self.send_message(arguments).await,
            Tool::React => self.react(arguments).await,
            Tool::WaitForEvents => self.wait_for_events(arguments).await,
            Tool::GetRoster => self.get_roster(arguments).await,
            Tool::SetStatus => self.set_status(arguments).await,
            Tool::Search => self.search(arguments).await,
            Tool::ArtifactList => self.artifact_list(arguments).await,
            Tool::ArtifactRead => self.artifact_read(arguments).await,
            Tool::ArtifactCreate | Tool::ArtifactEdit => self.artifact_write(tool, arguments).await,
        }
    }

    async fn list_events(&self, arguments: &Map<String, Value>) -> Result<Value, Failure> {
        let (at, limit, kind) = input::read(Tool::ListEvents.input(), arguments, |fields| {
            let after = input::integer(fields, "after", 0, input::MAX_INTEGER);
            let before = input::integer(fields, "before", 0, input::MAX_INTEGER);
            if after.is_some() && before.is_some() {
                fields.fault("before", "cannot be asked for together with after");
            }
            let at = after.map_or(At::Before(before.unwrap_or(i64::MAX)), At::After);
            (at, input::integer(fields, "limit", 1, 200).unwrap_or(50), input::kind(fields))
        })?;
        let (id, who) = (self.id, self.pass.who);
        let (filter, max_bytes) = (Filter { thread: None, kind }, self.page_bytes());
        let read = self.read(move |tx| {
            let (conversation, _) = conversation::as_reader(tx, id, who)?;
            let page = log::page(tx, &conversation, who, &filter, at, limit, max_bytes as usize)?;
            Ok((page, tx.head(id.0)?))
        });
        let (page, end) = read.await?;
        let (mut events, backwards) =
            (self.hub.events(&page.events, &page.standing), matches!(at, At::Before(_)));
        // What does not fit is what is farthest from where it is read from.
        if backwards {
            events.reverse();
        }
        let more = page::cut(&mut events, max_bytes) || page.more;
        let edge = events.last().and_then(|event| event["sequence"].as_i64());
        let next = if backwards { edge.unwrap_or(0) } else { edge.filter(|_| more).unwrap_or(end) };
        if backwards {
            events.reverse();
        }
        Ok(object([("events", events.into()), ("next", next.into()), ("more", more.into())]))
    }

    async fn read_thread(&self, arguments: &Map<String, Value>) -> Result<Value, Failure> {
        let (thread, after, limit) = input::read(Tool::ReadThread.input(), arguments, |fields| {
            fields.required("thread");
            let after = input::integer(fields, "after", 0, input::MAX_INTEGER).unwrap_or(0);
            (input::event(fields, "thread"), after, input::integer(fields, "limit", 1, 200).unwrap_or(50))
        })?;
        let (id, who, max_bytes) = (self.id, self.pass.who, self.page_bytes());
        let read = self.read(move |tx| {
            let (conversation, _) = conversation::as_reader(tx, id, who)?;
            let named = thread.ok_or(ConversationError::NoTarget)?;
            let message = conversation::message(tx, &conversation, who, named)?;
            let filter = Filter { thread: Some(message.thread.unwrap_or(named)), kind: None };
            let at = At::After(after);
            let page = log::page(tx, &conversation, who, &filter, at, limit, max_bytes as usize)?;
            Ok((page, tx.head(id.0)?))
        });
        let (page, end) = read.await?;
        let mut events = self.hub.events(&page.events, &page.standing);
        let more = page::cut(&mut events, max_bytes) || page.more;
        let next = events.last().filter(|_| more).and_then(|last| last["sequence"].as_i64()).unwrap_or(end);
        Ok(object([("events", events.into()), ("next", next.into()), ("more", more.into())]))
    }

    async fn send_message(&self, arguments: &Map<String, Value>) -> Result<Value, Failure> {
        let key = input::read(Tool::SendMessage.input(), arguments, input::idempotency_key);
        let (key, new) = also(key, self.hub.message(&Value::Object(arguments.clone())))?;
        self.hub.may_say(self.pass.who, self.id).map_err(Failure::Tool)?;
        let key = self.key(Tool::SendMessage, key, arguments);
        let (act, hub) = (self.act(), Arc::clone(&self.hub));
        self.once(key, move |tx| {
            let posted = hub.post(tx, &act, &new)?;
            let woken: Vec<_> = posted.delivered.iter().map(|(recipient, ..)| &recipient.handle).collect();
            Ok(json!({
                "event_id": act.event.to_string(),
                "sequence": posted.seq,
                "thread": posted.thread.map(|thread| thread.to_string()),
                "woken": woken,
                "knocked": [],
                "stored_for": [],
                "masked": new.body.kinds(),
            }))
        })
        .await
    }

    async fn react(&self, arguments: &Map<String, Value>) -> Result<Value, Failure> {
        let target = input::read(Tool::React.input(), arguments, |fields| {
            fields.required("event_id");
            input::event(fields, "event_id")
        });
        let (target, (signal, body)) = also(target, self.hub.reaction(&Value::Object(arguments.clone())))?;
        let (act, hub) = (self.act(), Arc::clone(&self.hub));
        self.once(None, move |tx| {
            let target = target.ok_or(ConversationError::NoTarget)?;
            let (event, seq) = hub.react(tx, &act, target, signal, &body)?;
            Ok(json!({"event_id": event.to_string(), "sequence": seq, "masked": body.kinds()}))
        })
        .await
    }

    async fn set_status(&self, arguments: &Map<String, Value>) -> Result<Value, Failure> {
        let status = input::read(Tool::SetStatus.input(), arguments, |fields| {
            fields.required("status");
            input::text(fields, "status", 0, MAX_STATUS).unwrap_or_default()
        })?;
        let (act, body) = (self.act(), Masked::new(Map::from_iter([("status".into(), status.into())])));
        let hub = Arc::clone(&self.hub);
        self.once(None, move |tx| {
            let seq = conversation::note(tx, &act, EventKind::Status, None, None, &body)?;
            hub.count(tx, act.author, body.json().len())?;
            Ok(json!({"event_id": act.event.to_string(), "sequence": seq, "masked": body.kinds()}))
        })
        .await
    }

    async fn get_roster(&self, arguments: &Map<String, Value>) -> Result<Value, Failure> {
        let (after, limit) = input::read(Tool::GetRoster.input(), arguments, |fields| {
            let after = input::text(fields, "after", 0, 64).unwrap_or_default();
            (after, input::integer(fields, "limit", 1, 200).unwrap_or(100))
        })?;
        let (id, who) = (self.id, self.pass.who);
        let read = self.read(move |tx| {
            let (conversation, me) = conversation::as_reader(tx, id, who)?;
            Ok((conversation, me, members::page(tx, id, &after, limit + 1)?))
        });
        let (conversation, me, mut found) = read.await?;
        let more = found.len() as i64 > limit;
        found.truncate(limit as usize);
        let mut listed: Vec<Value> = found
            .into_iter()
            .map(|member| {
                json!({
                    "handle": member.handle,
                    "kind": member.principal.kind(),
                    "id": member.principal.to_string(),
                    "roles": member.roles,
                    "lead": member.lead,
                    "joined_at": rfc3339(member.joined_at),
                })
            })
            .collect();
        let more = page::cut(&mut listed, self.page_bytes()) || more;
        let next = listed.last().filter(|_| more).map_or(Value::Null, |last| last["handle"].clone());
        let channel = json!({
            "id": conversation.id.to_string(),
            "kind": conversation.kind.as_str(),
            "name": conversation.name,
            "context": conversation.context,
        });
        Ok(object([
            ("channel", channel),
            ("you", me.handle.into()),
            ("members", listed.into()),
            ("next", next),
        ]))
    }

    async fn search(&self, arguments: &Map<String, Value>) -> Result<Value, Failure> {
        let (query, before, limit) = input::read(Tool::Search.input(), arguments, |fields| {
            fields.required("query");
            let query = input::text(fields, "query", 1, 200).unwrap_or_default();
            (query, input::event(fields, "before"), input::integer(fields, "limit", 1, 50).unwrap_or(20))
        })?;
        let (id, who, max_bytes) = (self.id, self.pass.who, self.page_bytes());
        let read = self.read(move |tx| {
            let (conversation, _) = conversation::as_reader(tx, id, who)?;
            let found = search::page(tx, who, Some(id), &query, before, limit)?;
            let (mut events, mut bytes, mut next) = (vec![], 0, found.next);
            for event in found.events {
                if bytes >= max_bytes {
                    next = events.last().map(|last: &conversations::Event| last.id);
                    break;
                }
                if let Some(event) = conversations::event_by_id(tx, event)? {
                    bytes += event.body.len() as u64;
                    events.push(event);
                }
            }
            let stays = log::readable(tx, &conversation, who)?;
            let standing = log::stand(tx, &conversation, who, &stays, &events)?;
            Ok((events, standing, next))
        });
        let (events, standing, next) = read.await?;
        let (mut events, mut next) =
            (self.hub.events(&events, &standing), json!(next.map(|next| next.to_string())));
        if page::cut(&mut events, max_bytes) {
            next = events.last().map_or(Value::Null, |last| last["event_id"].clone());
        }
        Ok(object([("events", events.into()), ("next", next)]))
    }

    async fn artifact_list(&self, arguments: &Map<String, Value>) -> Result<Value, Failure> {
        let (after, limit) = input::read(Tool::ArtifactList.input(), arguments, |fields| {
            let after = input::text(fields, "after", 0, 64).unwrap_or_default();
            (after, input::integer(fields, "limit", 1, 200).unwrap_or(50))
        })?;
        let (id, who) = (self.id, self.pass.who);
        let read = self.read(move |tx| {
            conversation::as_reader(tx, id, who)?;
            Ok(artifacts::page(tx, id, &after, limit + 1)?)
        });
        let mut found = read.await?;
        let more = found.len() as i64 > limit;
        found.truncate(limit as usize);
        let mut listed: Vec<Value> = found.iter().map(|artifact| self.shown(artifact)).collect();
        let more = page::cut(&mut listed, self.page_bytes()) || more;
        let next = listed.last().filter(|_| more).map_or(Value::Null, |last| last["slug"].clone());
        Ok(object([("artifacts", listed.into()), ("next", next)]))
    }

    fn shown(&self, artifact: &Artifact) -> Value {
        json!({
            "slug": artifact.slug,
            "uri": resources::uri(self.id, &artifact.slug),
            "version": artifact.version,
            "title": artifact.title,
            "content_type": artifact.content_type,
            "created_at": rfc3339(artifact.created_at),
        })
    }

    async fn artifact_read(&self, arguments: &Map<String, Value>) -> Result<Value, Failure> {
        let (slug, version) = input::read(Tool::ArtifactRead.input(), arguments, |fields| {
            fields.required("slug");
            let slug = input::text(fields, "slug", 1, 64).unwrap_or_default();
            (slug, input::integer(fields, "version", 1, 999_999_999))
        })?;
        let found = self.artifact(&slug, version).await?.ok_or_else(no_document)?;
        let mut shown = self.shown(&found);
        shown["content"] = found.content.into();
        Ok(shown)
    }

    async fn artifact_write(&self, tool: Tool, arguments: &Map<String, Value>) -> Result<Value, Failure> {
        let key = input::read(tool.input(), arguments, |fields| {
            if tool == Tool::ArtifactEdit {
                fields.required("base_version");
            }
            input::idempotency_key(fields)
        });
        let (key, new) = also(key, self.hub.document(&Value::Object(arguments.clone())))?;
        let key = self.key(tool, key, arguments);
        let (act, channel) = (self.act(), self.clone());
        self.once(key, move |tx| {
            let artifact = channel.hub.put_document(tx, &act, &new).map_err(|error| match error {
                ConversationError::Stale(0) => no_document(),
                ConversationError::Stale(_) if new.base == 0 => {
                    Failure::Tool("there is a document of this slug already; change it with artifact_edit, or use another slug".into())
                }
                error => error.into(),
            })?;
            let mut shown = channel.shown(&artifact);
            shown["masked"] = json!(new.kinds());
            Ok(shown)
        })
        .await
    }

    /// The key of a request that may come again, if it was given one.
    fn key(&self, tool: Tool, key: Option<String>, arguments: &Map<String, Value>) -> Option<Key> {
        let (who, id) = (self.pass.who.to_string(), self.id.to_string());
        let request = Value::Object(arguments.clone()).to_string();
        key.map(|key| {
            let parts = [who.as_bytes(), id.as_bytes(), tool.name().as_bytes(), key.as_bytes()];
            Key::new("mcp", &parts, request.as_bytes(), Some(self.hub.now() + KEY_LIFE_MS))
        })
    }

    /// Does something in one transaction; with a key, once, and then the first result is given again. A failure is not
    /// remembered, so that it can be tried again.
    async fn once<F>(&self, key: Option<Key>, work: F) -> Result<Value, Failure>
    where
        F: Fn(&mut dyn Tx) -> Result<Value, Failure> + Send + 'static,
    {
        let (id, who, now) = (self.id, self.pass.who, self.hub.now());
        self.write(move |tx| {
            let Some(key) = &key else { return work(tx) };
            match idempotency::claim(tx, key, now, now)? {
                Known::New => {}
                Known::Answered(first) => {
                    // Who left since is told nothing any more.
                    conversation::as_reader(tx, id, who)?;
                    return serde_json::from_str(&first.body)
                        .map_err(|error| StoreError::Unexpected(error.into()).into());
                }
                Known::InProgress | Known::Conflict => return Err(Failure::Key),
            }
            let result = work(tx)?;
            idempotency::answer(tx, key, now, &Answer::new(200, result.to_string()))?;
            Ok(result)
        })
        .await
    }
}

/// What was read here, and what the hub read of the same arguments; or all their faults together.
fn also<A, B>(here: Result<A, Failure>, there: Result<B, String>) -> Result<(A, B), Failure> {
    match (here, there) {
        (Ok(here), Ok(there)) => Ok((here, there)),
        (Err(Failure::Tool(here)), Err(there)) => Err(Failure::Tool(format!("{here}; {there}"))),
        (Err(here), _) => Err(here),
        (_, Err(there)) => Err(Failure::Tool(format!("nothing was done; mend these arguments: {there}"))),
    }
}

fn no_document() -> Failure {
    Failure::Tool("there is no such document in this channel; artifact_list tells what there is".into())
}
