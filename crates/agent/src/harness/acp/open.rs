//! Starting the program, and opening the session of a thread: kept, resumed, loaded or new.

use super::process::Process;
use super::store::SessionRecord;
use super::wire::{SessionEvent, Wire, WireFault, cancelled};
use super::{AcpAsked, Bridge, Fault};
use crate::harness::activity::Activity;
use crate::harness::texts::cut;
use crate::harness::turn::Turn;
use chorus_protocol::words::EntryKind;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::timeout;

/// The version of the protocol.
const VERSION: u64 = 1;

/// The time limit for starting the program, and for opening a session.
const OPEN_LIMIT: Duration = Duration::from_mins(1);

/// A loaded session is ready when it has repeated nothing for this time, within the limit.
const QUIET: Duration = Duration::from_millis(500);
const REPEAT_LIMIT: Duration = Duration::from_secs(15);

/// One minute in milliseconds.
const MINUTE_MS: i64 = 60_000;

/// A running program after the greeting.
pub(super) struct Live {
    pub(super) process: Process,
    can_resume: bool,
    can_load: bool,
    takes_http: bool,
    /// The sessions that are open in this process.
    opened: Mutex<HashSet<String>>,
}

impl Live {
    /// Notes that a session is open in this process.
    fn note_opened(&self, id: &str) {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned());
    }

    pub(super) fn wire(&self) -> &Wire {
        &self.process.wire
    }
}

/// The way in which a session was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opening {
    /// It was open.
    Kept,
    /// It was resumed, with its history.
    Resumed,
    New,
}

impl Bridge {
    /// Returns the running program, starting it if necessary.
    pub(super) async fn live(&self) -> Result<Arc<Live>, Fault> {
        let mut kept = self.live.lock().await;
        if let Some(live) = kept.as_ref().filter(|live| live.wire().ended().is_none()) {
            return Ok(Arc::clone(live));
        }
        // The former program is killed, if it still runs.
        *kept = None;
        let live = Arc::new(self.start().await?);
        *kept = Some(Arc::clone(&live));
        Ok(live)
    }

    async fn start(&self) -> Result<Live, Fault> {
        let process = Process::start(&self.acp, &self.home).map_err(|why| Fault::last(why, "cannot_run"))?;
        let greeting = json!({
            "protocolVersion": VERSION,
            "clientInfo": {"name": "chorus", "title": "Chorus", "version": env!("CARGO_PKG_VERSION")},
            "clientCapabilities": {"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false},
        });
        let greeted = process.wire.call("initialize", greeting, OPEN_LIMIT).await;
        let greeted = greeted.map_err(|fault| self.fault(fault))?;
        if greeted["protocolVersion"].as_u64() != Some(VERSION) {
            let version = cut(&greeted["protocolVersion"].to_string(), 50);
            let why = format!("{} speaks version {version} of ACP, not {VERSION}", self.acp.name());
            return Err(Fault::last(why, "cannot_run"));
        }
        let able = &greeted["agentCapabilities"];
        Ok(Live {
            process,
            can_resume: able["sessionCapabilities"]["resume"].is_object(),
            can_load: able["loadSession"] == true,
            takes_http: able["mcpCapabilities"]["http"] == true,
            opened: Mutex::default(),
        })
    }

    /// Opens the session of a thread and returns its id. It is in the state folder when this returns.
    pub(super) async fn open_session(
        &self,
        live: &Live,
        key: &str,
        digest: &str,
        asked: &AcpAsked<'_>,
    ) -> Result<(String, Opening), Fault> {
        let servers = self.mcp_servers(live, asked);
        let known = self.store.find(key);
        if let Some(record) = &known {
            if live.opened.lock().unwrap_or_else(PoisonError::into_inner).contains(&record.id) {
                return Ok((record.id.clone(), Opening::Kept));
            }
            if self.resume(live, record, &servers, asked).await? {
                live.note_opened(&record.id);
                return Ok((record.id.clone(), Opening::Resumed));
            }
            // The session is lost, and so is the knowledge of what was done in it.
            if let Some(tool) = record.acted.as_ref().filter(|_| record.asked.as_deref() == Some(digest)) {
                let why = format!(
                    "interrupted after calling {tool}, and the session is lost; it is not called again"
                );
                return Err(Fault::last(why, "interrupted"));
            }
        }
        let params = json!({"cwd": self.acp.folder, "mcpServers": servers});
        let made = live.wire().call("session/new", params, OPEN_LIMIT).await;
        let made = made.map_err(|fault| self.fault(fault))?;
        let id = made["sessionId"].as_str().filter(|id| !id.is_empty() && id.len() <= 1000);
        let Some(id) = id else {
            return Err(Fault::last(format!("{} gave its session no id", self.acp.name()), "failed"));
        };
        let record = SessionRecord {
            key: key.to_owned(),
            id: id.to_owned(),
            created_ms: asked.environment.now(),
            ..SessionRecord::default()
        };
        self.store.put(record).map_err(|error| Fault::state(&error))?;
        self.set_mode(live.wire(), id, &made).await?;
        live.note_opened(id);
        Ok((id.to_owned(), Opening::New))
    }

    /// Opens an earlier session. Returns `false` if the program cannot or does not know it.
    async fn resume(
        &self,
        live: &Live,
        record: &SessionRecord,
        servers: &Value,
        asked: &AcpAsked<'_>,
    ) -> Result<bool, Fault> {
        let wire = live.wire();
        let params = json!({"sessionId": record.id, "cwd": self.acp.folder, "mcpServers": servers});
        let is_young = record.created_ms / MINUTE_MS == asked.environment.now() / MINUTE_MS;
        let loses = is_young && self.acp.preset.is_some_and(|preset| preset.loads_after_a_minute);
        let resumed = if live.can_resume {
            wire.call("session/resume", params, OPEN_LIMIT).await
        } else if live.can_load && !loses {
            load(wire, &record.id, params).await
        } else {
            return Ok(false);
        };
        match resumed {
            Ok(result) => {
                self.set_mode(wire, &record.id, &result).await?;
                Ok(true)
            }
            Err(fault @ (WireFault::Ended(_) | WireFault::Slow(_))) => Err(self.fault(fault)),
            Err(WireFault::Refused(error)) if error.code == super::LOGIN => {
                Err(self.fault(WireFault::Refused(error)))
            }
            // The codes for an unknown session differ from program to program.
            Err(WireFault::Refused(error)) => {
                let what = format!("the earlier session, which {} does not open: {error}", self.acp.name());
                asked.reporter.observer().tell(Activity::Skipped { what: cut(&what, 500) });
                Ok(false)
            }
        }
    }

    /// Sets the mode that was asked for, or one in which the program asks for permission.
    async fn set_mode(&self, wire: &Wire, session: &str, opened: &Value) -> Result<(), Fault> {
        let modes = &opened["modes"];
        let offered = modes["availableModes"].as_array().map_or(&[][..], Vec::as_slice);
        let offered: Vec<_> = offered.iter().filter_map(|mode| mode["id"].as_str()).collect();
        let wanted = match (&self.acp.mode, self.acp.preset) {
            (Some(mode), _) if offered.contains(&mode.as_str()) => mode.as_str(),
            (Some(mode), _) => {
                let offered = cut(&offered.join(", "), 300);
                let why = format!("{} has no mode {mode}; its modes: {offered}", self.acp.name());
                return Err(Fault::last(why, "no_mode"));
            }
            (None, Some(preset)) => match preset.modes.iter().find(|mode| offered.contains(mode)) {
                Some(mode) => mode,
                None => return Ok(()),
            },
            (None, None) => return Ok(()),
        };
        if modes["currentModeId"] == wanted {
            return Ok(());
        }
        let params = json!({"sessionId": session, "modeId": wanted});
        let set = wire.call("session/set_mode", params, OPEN_LIMIT).await;
        set.map(drop).map_err(|fault| self.fault(fault))
    }

    /// Returns the MCP servers of a session: the hub's, if the session is to have its tools.
    fn mcp_servers(&self, live: &Live, asked: &AcpAsked<'_>) -> Value {
        if !self.acp.mcp {
            return json!([]);
        }
        if !live.takes_http {
            let what = format!("the hub's tools: {} takes no MCP server over HTTP", self.acp.name());
            asked.reporter.observer().tell(Activity::Skipped { what });
            return json!([]);
        }
        let turn = &asked.run.turn;
        json!(hub_server(turn).into_iter().collect::<Vec<_>>())
    }
}

/// Returns the entry of the hub's MCP server for the conversation of a turn, with the bearer that came with it.
fn hub_server(turn: &Turn) -> Option<Value> {
    // Only the hub itself sends a `chat`.
    let server = turn.mcp.first().filter(|_| turn.kind == EntryKind::Chat)?;
    let headers: Vec<_> =
        server.headers.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
    Some(json!({"type": "http", "name": "chorus", "url": server.url, "headers": headers}))
}

/// Loads a session and waits until the program has repeated its history, which some do after the answer.
async fn load(wire: &Wire, session: &str, params: Value) -> Result<Value, WireFault> {
    let mut events = wire.listen(session);
    let mut call = pin!(wire.call("session/load", params, OPEN_LIMIT));
    let loaded = loop {
        tokio::select! {
            loaded = &mut call => break loaded,
            Some(event) = events.recv() => refuse(wire, event).await,
        }
    };
    if loaded.is_ok() {
        let repeated = async {
            while let Ok(Some(event)) = timeout(QUIET, events.recv()).await {
                refuse(wire, event).await;
            }
        };
        timeout(REPEAT_LIMIT, repeated).await.ok();
    }
    wire.stop_listening(session);
    loaded
}

/// Refuses a permission request outside of a turn.
pub(super) async fn refuse(wire: &Wire, event: SessionEvent) {
    if let SessionEvent::Permission { id, .. } = event {
        wire.respond(id, Ok(cancelled())).await;
    }
}
