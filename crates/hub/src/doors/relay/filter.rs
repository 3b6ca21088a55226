//! Looking for agents: what a query asks of them.
//!
//! Cards are what agents say of themselves, kept as they came, so a filter reads them one by one. That is bounded by
//! whoever applies it, page by page.

use crate::error::ApiError;
use axum::http::Uri;
use chorus_protocol::faults::Faults;
use chorus_protocol::relay::Registration;
use serde_json::Value;

/// What is asked; nothing asks for everybody.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    /// A part of the name, in lower case.
    q: Option<String>,
    culture: Option<String>,
    language: Option<String>,
    online: Option<bool>,
}

impl Filter {
    pub(crate) fn parse(uri: &Uri) -> Result<Self, ApiError> {
        let (mut filter, mut faults) = (Self::default(), Faults::new());
        for (name, value) in url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
            match &*name {
                "q" => filter.q = Some(value.to_lowercase()),
                "culture" => filter.culture = Some(value.into_owned()),
                "language" => filter.language = Some(value.into_owned()),
                "online" => match &*value {
                    "true" => filter.online = Some(true),
                    "false" => filter.online = Some(false),
                    _ => faults.add("online", "must be true or false"),
                },
                _ => {}
            }
        }
        if faults.is_empty() { Ok(filter) } else { Err(faults.into()) }
    }

    pub(crate) fn matches(&self, agent: &Registration) -> bool {
        let card = agent.agent_card.as_ref().unwrap_or(&Value::Null);
        let name = agent.agent_id.split('@').next().unwrap_or_default().to_lowercase();
        self.q.as_ref().is_none_or(|part| name.contains(part.as_str()))
            && self.online.is_none_or(|online| agent.online == online)
            && self.culture.as_ref().is_none_or(|range| is_in_range(&card["user_culture"], range))
            && self.language.as_ref().is_none_or(|range| {
                let languages = card["supported_languages"].as_array();
                languages.is_some_and(|languages| languages.iter().any(|tag| is_in_range(tag, range)))
            })
    }
}

/// Basic filtering of RFC 4647: `zh` finds `zh-CN`, `zh-CN` does not find `zh`.
fn is_in_range(tag: &Value, range: &str) -> bool {
    let tag = tag.as_str().unwrap_or_default();
    let (head, rest) = tag.split_at_checked(range.len()).unwrap_or(("", ""));
    !range.is_empty() && head.eq_ignore_ascii_case(range) && (rest.is_empty() || rest.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use chorus_protocol::ids::AgentId;
    use serde_json::json;

    #[test]
    fn each_thing_asked_must_hold() {
        let agent = Registration {
            id: AgentId(uuid::Uuid::nil()),
            agent_id: "Alice-1@hub.example".into(),
            endpoint: None,
            agent_card: Some(json!({"user_culture": "zh-CN", "supported_languages": ["zh-CN", "en"]})),
            online: true,
            registered_at: String::new(),
            updated_at: String::new(),
        };
        for (query, found) in [
            ("", true),
            ("?q=LICE", true),
            ("?q=hub", false),
            ("?culture=zh", true),
            ("?culture=ZH-cn", true),
            ("?culture=z", false),
            ("?culture=", false),
            ("?language=en", true),
            ("?language=en-GB", false),
            ("?language=de", false),
            ("?online=true&culture=zh", true),
            ("?online=false", false),
        ] {
            let uri: Uri = format!("/agents{query}").parse().unwrap();
            assert_eq!(Filter::parse(&uri).unwrap().matches(&agent), found, "{query}");
        }
        assert!(Filter::parse(&"/agents?online=yes".parse().unwrap()).is_err());
    }
}
