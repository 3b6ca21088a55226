//! Detection of the protocol revision of a request, and the comparison of its headers with its body.
//!
//! One URL serves two kinds of revisions. From 2026-07-28 on every request carries its version and is
//! stateless; before, `initialize` opens a session. A request with the newer metadata is stateless; every
//! other request uses sessions.

use crate::code;
use axum::http::HeaderMap;
use chorus_protocol::rpc::RpcError;
use data_encoding::BASE64;
use serde_json::{Map, Value, json};

/// The stateless revision.
pub(crate) const STATELESS: &str = "2026-07-28";
/// The revisions with sessions, newest first. The older one does not differ in anything that is served here.
pub(crate) const WITH_SESSIONS: [&str; 2] = ["2025-11-25", "2025-06-18"];

pub(crate) const VERSION_HEADER: &str = "mcp-protocol-version";
const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";

/// The kind of protocol revision that a client uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revision {
    /// 2026-07-28: every request is self-contained.
    Stateless,
    /// 2025-11-25 and earlier: requests belong to sessions.
    WithSessions,
}

/// Returns all revisions in the form sent to clients.
pub(crate) fn supported() -> Value {
    json!([STATELESS, WITH_SESSIONS[0], WITH_SESSIONS[1]])
}

fn unsupported(requested: &str) -> RpcError {
    RpcError::new(code::UNSUPPORTED_VERSION, "this revision of the protocol is not spoken here")
        .with(json!({"supported": supported(), "requested": requested}))
}

fn mismatch(what: String) -> RpcError {
    RpcError::new(code::HEADER_MISMATCH, what)
}

/// Reads a header and rejects different values of it.
fn header<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h str>, RpcError> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let text = value.to_str().map_err(|_| mismatch(format!("{name}: must be plain ASCII")))?;
    if values.any(|other| other != value) {
        return Err(mismatch(format!("{name}: was sent with different values")));
    }
    Ok(Some(text))
}

/// Returns the revision of a request by its headers. `told` is set if the body has the newer metadata.
pub(crate) fn of(headers: &HeaderMap, told: bool) -> Result<Revision, RpcError> {
    match header(headers, VERSION_HEADER)? {
        _ if told => Ok(Revision::Stateless),
        Some(STATELESS) => Ok(Revision::Stateless),
        None => Ok(Revision::WithSessions),
        Some(version) if WITH_SESSIONS.contains(&version) => Ok(Revision::WithSessions),
        Some(version) => Err(unsupported(version)),
    }
}

/// Returns `true` if the parameters have the newer metadata.
pub(crate) fn is_told(method: &str, params: &Map<String, Value>) -> bool {
    method == "server/discover" || params.get("_meta").is_some_and(|meta| meta.get(VERSION_KEY).is_some())
}

/// Checks that a stateless request has its metadata and that its headers match its body. Returns the client's
/// capabilities.
pub(crate) fn check(
    headers: &HeaderMap,
    method: &str,
    params: &Map<String, Value>,
) -> Result<Value, RpcError> {
    let asked = header(headers, VERSION_HEADER)?;
    let asked =
        asked.ok_or_else(|| mismatch("MCP-Protocol-Version: must be sent with every request".into()))?;
    let meta = params.get("_meta").and_then(Value::as_object);
    let missing = |name: &str| RpcError::params(format!("params._meta: must have {name:?}"));
    let version =
        meta.and_then(|meta| meta.get(VERSION_KEY)?.as_str()).ok_or_else(|| missing(VERSION_KEY))?;
    if version != asked {
        return Err(mismatch(format!(
            "MCP-Protocol-Version: the header says {asked:?}, the body {version:?}"
        )));
    }
    if version != STATELESS {
        return Err(unsupported(version));
    }
    let capabilities = meta.and_then(|meta| meta.get(CAPABILITIES_KEY)).filter(|value| value.is_object());
    let capabilities = capabilities.ok_or_else(|| missing(CAPABILITIES_KEY))?;
    same(header(headers, "mcp-method")?, "Mcp-Method", method)?;
    let source = match method {
        "tools/call" | "prompts/get" => params.get("name"),
        "resources/read" => params.get("uri"),
        _ => return Ok(capabilities.clone()),
    };
    // A body without a name is invalid and is rejected where it is read.
    if let Some(name) = source.and_then(Value::as_str) {
        let told = header(headers, "mcp-name")?.map(decode).transpose()?;
        same(told.as_deref(), "Mcp-Name", name)?;
    }
    Ok(capabilities.clone())
}

fn same(told: Option<&str>, name: &str, body: &str) -> Result<(), RpcError> {
    match told {
        Some(told) if told == body => Ok(()),
        Some(told) => Err(mismatch(format!("{name}: the header says {told:?}, the body {body:?}"))),
        None => Err(mismatch(format!("{name}: must be sent, and be {body:?}"))),
    }
}

/// Decodes a header value that may be base64.
fn decode(value: &str) -> Result<String, RpcError> {
    let Some(inner) = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) else {
        return Ok(value.to_owned());
    };
    let bytes = BASE64.decode(inner.as_bytes()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    bytes.ok_or_else(|| mismatch("Mcp-Name: is not valid base64 of UTF-8".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    fn params(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn which_revision() {
        let of = |pairs: &[(&'static str, &'static str)], told| {
            of(&headers(pairs), told).map_err(|error| error.code)
        };
        assert_eq!(of(&[], false), Ok(Revision::WithSessions));
        assert_eq!(of(&[], true), Ok(Revision::Stateless));
        assert_eq!(of(&[(VERSION_HEADER, "2025-11-25")], false), Ok(Revision::WithSessions));
        assert_eq!(of(&[(VERSION_HEADER, "2025-06-18")], false), Ok(Revision::WithSessions));
        assert_eq!(of(&[(VERSION_HEADER, STATELESS)], false), Ok(Revision::Stateless));
        assert_eq!(of(&[(VERSION_HEADER, "2024-11-05")], false), Err(code::UNSUPPORTED_VERSION));
        let twice = [(VERSION_HEADER, STATELESS), (VERSION_HEADER, "2025-11-25")];
        assert_eq!(of(&twice, false), Err(code::HEADER_MISMATCH));
    }

    #[test]
    fn headers_say_what_the_body_says() {
        let meta = json!({VERSION_KEY: STATELESS, CAPABILITIES_KEY: {"roots": {}}});
        let whole = params(json!({"name": "Grüße", "_meta": meta}));
        let version = (VERSION_HEADER, STATELESS);
        let method = ("mcp-method", "tools/call");
        let name = ("mcp-name", "=?base64?R3LDvMOfZQ==?=");
        let check = |pairs: &[_], params: &_| {
            super::check(&headers(pairs), "tools/call", params).map_err(|error| error.code)
        };
        assert_eq!(check(&[version, method, name], &whole), Ok(json!({"roots": {}})));
        for (pairs, params, code) in [
            (vec![method, name], whole.clone(), code::HEADER_MISMATCH),
            (vec![version, name], whole.clone(), code::HEADER_MISMATCH),
            (vec![version, ("mcp-method", "tools/list"), name], whole.clone(), code::HEADER_MISMATCH),
            (vec![version, method], whole.clone(), code::HEADER_MISMATCH),
            (vec![version, method, ("mcp-name", "Gruss")], whole.clone(), code::HEADER_MISMATCH),
            (vec![version, method, ("mcp-name", "=?base64?!?=")], whole, code::HEADER_MISMATCH),
            (vec![version, method, name], params(json!({})), RpcError::INVALID_PARAMS),
            (
                vec![version, method, name],
                params(json!({"_meta": {VERSION_KEY: STATELESS}})),
                RpcError::INVALID_PARAMS,
            ),
            (
                vec![version, method, name],
                params(json!({"_meta": {CAPABILITIES_KEY: {}}})),
                RpcError::INVALID_PARAMS,
            ),
            (
                vec![version, method, name],
                params(json!({"_meta": {VERSION_KEY: "2025-11-25", CAPABILITIES_KEY: {}}})),
                code::HEADER_MISMATCH,
            ),
            (
                vec![(VERSION_HEADER, "2027-01-01"), method, name],
                params(json!({"_meta": {VERSION_KEY: "2027-01-01", CAPABILITIES_KEY: {}}})),
                code::UNSUPPORTED_VERSION,
            ),
        ] {
            assert_eq!(check(&pairs, &params), Err(code), "{pairs:?} {params:?}");
        }
    }
}
