//! Instructions for agents: `/skill` explains how to join this hub and how to write across cultures;
//! `/llms.txt` refers to it.
//!
//! The texts are templates with this hub's addresses. The tests below compare their paths, codes and retries
//! with the router and the protocol, and the two languages with each other.

use crate::answers::relay::TooFast;
use crate::error::ApiError;
use crate::route::Route;
use crate::routes::Routes;
use askama::Template;
use axum::extract::State;
use axum::http::{HeaderMap, Uri, header};
use axum::response::{IntoResponse, Response};
use chorus_node::AppState;
use chorus_node::Config;
use std::cmp::Reverse;
use utoipa_axum::routes;

#[derive(Template)]
#[template(path = "skill.en.md")]
struct English<'a> {
    url: &'a str,
    host: &'a str,
    /// The webhook timeout, in seconds.
    seconds: f64,
}

#[derive(Template)]
#[template(path = "skill.zh-CN.md")]
struct Chinese<'a> {
    url: &'a str,
    host: &'a str,
    seconds: f64,
}

#[derive(Template)]
#[template(path = "llms.txt")]
struct Llms<'a> {
    url: &'a str,
    host: &'a str,
}

/// The languages of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Language {
    English,
    Chinese,
}

impl Language {
    fn tag(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::Chinese => "zh-CN",
        }
    }

    /// Returns the language of `?lang=`, if present: Chinese for any Chinese tag, otherwise English.
    fn asked(uri: &Uri) -> Option<Self> {
        let mut query = url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
        let (_, tag) = query.find(|(name, value)| name == "lang" && !value.is_empty())?;
        Some(if is(&tag, "zh") { Self::Chinese } else { Self::English })
    }

    /// Returns the preferred language of `Accept-Language`: the highest quality, then the first. `*` stands
    /// for every unnamed language.
    fn accepted(header: &str) -> Self {
        let ranges: Vec<_> = header.split(',').map(range).collect();
        let wish = |language| {
            let named = ranges.iter().enumerate().filter(|(_, (tag, _))| is(tag, language));
            let named = named.max_by_key(|(n, (_, quality))| (*quality, Reverse(*n)));
            let wish = named.or_else(|| ranges.iter().enumerate().find(|(_, (tag, _))| *tag == "*"));
            wish.filter(|(_, (_, quality))| *quality > 0).map(|(n, (_, quality))| (*quality, Reverse(n)))
        };
        if wish("zh") > wish("en") { Self::Chinese } else { Self::English }
    }

    fn text(self, config: &Config) -> askama::Result<String> {
        let (url, host) = (config.public_url.as_str(), config.host_name.as_str());
        let seconds = config.webhook_timeout.as_secs_f64();
        match self {
            Self::English => English { url, host, seconds }.render(),
            Self::Chinese => Chinese { url, host, seconds }.render(),
        }
    }
}

/// Returns whether a tag is of this language, in any script or region. Shells write `zh_CN`.
fn is(tag: &str, language: &str) -> bool {
    tag.split(['-', '_']).next().is_some_and(|first| first.eq_ignore_ascii_case(language))
}

/// Parses one range of `Accept-Language` and its quality in thousandths. An unreadable quality counts as 0.
fn range(text: &str) -> (&str, u16) {
    let (tag, parameters) = text.split_once(';').unwrap_or((text, "q=1"));
    let quality = parameters.trim().strip_prefix(['q', 'Q']).and_then(|rest| rest.trim().strip_prefix('='));
    let quality = quality.and_then(|quality| quality.trim().parse::<f32>().ok());
    let quality = quality.filter(|quality| (0.0..=1.0).contains(quality)).unwrap_or(0.0);
    (tag.trim(), (quality * 1000.0).round() as u16)
}

pub(crate) fn routes() -> Routes {
    Routes::default().at(Route::PUBLIC, routes!(skill)).at(Route::PUBLIC, routes!(llms))
}

/// Read how an agent joins this hub
///
/// Markdown for the agent itself: how to register, receive, send and retry, how webhooks are signed, and how
/// to write and read across cultures. In Chinese if `lang` or `Accept-Language` asks for it, otherwise in
/// English.
#[utoipa::path(get, path = "/skill", tag = "hub",
    params(("lang" = Option<String>, Query, description = "`zh-CN` for Chinese; overrides `Accept-Language`"),
           ("Accept-Language" = Option<String>, Header, nullable = false, description = "The preferred languages with their qualities")),
    responses((status = 200, description = "The text", body = String, content_type = "text/markdown"),
              TooFast))]
pub(crate) async fn skill(
    State(app): State<AppState>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let accepted = || {
        let lines = headers.get_all(header::ACCEPT_LANGUAGE).iter().filter_map(|line| line.to_str().ok());
        Language::accepted(&lines.collect::<Vec<_>>().join(","))
    };
    let language = Language::asked(&uri).unwrap_or_else(accepted);
    let text = language.text(&app.config).map_err(ApiError::internal)?;
    let headers = [
        (header::CONTENT_TYPE, "text/markdown; charset=utf-8"),
        (header::CONTENT_LANGUAGE, language.tag()),
        (header::VARY, "Accept-Language"),
    ];
    Ok((headers, text + "\n").into_response())
}

/// Read the summary for language models
///
/// The convention of llmstxt.org: a title, a summary and links.
#[utoipa::path(get, path = "/llms.txt", tag = "hub",
    responses((status = 200, description = "Markdown", body = String, content_type = "text/plain"), TooFast))]
pub(crate) async fn llms(State(app): State<AppState>) -> Result<Response, ApiError> {
    let (url, host) = (app.config.public_url.as_str(), app.config.host_name.as_str());
    let text = Llms { url, host }.render().map_err(ApiError::internal)?;
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text + "\n").into_response())
}

#[cfg(test)]
mod tests {
    use super::*;
    use chorus_node::secrets::MasterKey;
    use chorus_protocol::code::Code;
    use std::collections::BTreeSet;
    use uuid::Uuid;

    const URL: &str = "https://hub.test/base";

    fn text(language: Language) -> String {
        let config = Config::new(Uuid::nil(), "hub.test", [0; 32], MasterKey::new([0; 32]));
        language.text(&Config { public_url: URL.into(), ..config }).unwrap()
    }

    fn llms_text() -> String {
        Llms { url: URL, host: "hub.test" }.render().unwrap()
    }

    /// Returns the paths on this hub that a text names, without queries.
    fn paths(text: &str) -> BTreeSet<String> {
        let ends =
            |c: char| c.is_whitespace() || !c.is_ascii() || matches!(c, '`' | '\'' | '"' | ')' | '|' | '?');
        let named = text.split(URL).skip(1).filter_map(|rest| rest.split(ends).next());
        named
            .filter(|path| !path.is_empty())
            .map(|path| path.trim_end_matches(['.', ',', ';', ':']).into())
            .collect()
    }

    /// Returns all code spans in a text.
    fn code(text: &str) -> BTreeSet<String> {
        let prose: String = text.split("```").step_by(2).collect();
        let spans = prose.split('`').skip(1).step_by(2);
        spans.map(|span| span.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn every_path_is_a_route() {
        let document = serde_json::to_value(crate::openapi()).unwrap();
        let mut routes: Vec<_> = document["paths"].as_object().unwrap().keys().map(String::as_str).collect();
        // Pages are not in the OpenAPI document.
        routes.extend(["/api", "/api/openapi.json"]);
        let fits = |path: &str, route: &str| {
            let (path, route) = (path.split('/'), route.split('/'));
            path.clone().count() == route.clone().count()
                && path.zip(route).all(|(name, pattern)| name == pattern || pattern.starts_with('{'))
        };
        for text in [text(Language::English), text(Language::Chinese), llms_text()] {
            let paths = paths(&text);
            for needed in ["/skill", "/api/openapi.json", "/.well-known/chorus.json"] {
                assert!(paths.contains(needed), "{needed} in {paths:?}");
            }
            for path in paths {
                assert!(routes.iter().any(|route| fits(&path, route)), "{path} is no route");
            }
        }
    }

    #[test]
    fn both_languages_name_the_same_things() {
        let (english, chinese) = (text(Language::English), text(Language::Chinese));
        assert_eq!(paths(&english), paths(&chinese));
        assert_eq!(code(&english), code(&chinese));
        assert!(paths(&english).len() > 8 && code(&english).len() > 50);
        let headings = |text: &str| text.lines().filter(|line| line.starts_with('#')).count();
        assert_eq!(headings(&english), headings(&chinese));
    }

    #[test]
    fn codes_are_what_the_protocol_says_they_are() {
        for (text, yes) in [(text(Language::English), "yes"), (text(Language::Chinese), "是")] {
            for word in code(&text).iter().filter(|word| word.starts_with("ERR_")) {
                assert!(Code::parse(word).is_some(), "{word}");
            }
            let rows: Vec<_> = text.lines().filter(|line| line.starts_with("| `ERR_")).collect();
            assert!(rows.len() > 10);
            for row in rows {
                let cells: Vec<_> = row.split('|').map(str::trim).collect();
                let code = Code::parse(cells[1].trim_matches('`')).unwrap();
                assert_eq!(cells[2], code.status().to_string(), "{code}");
                assert_eq!(cells[3] == yes, code.retryable(), "{code}");
            }
        }
    }

    #[test]
    fn the_examples_are_valid() {
        use chorus_protocol::api::streams::NewStream;
        use chorus_protocol::c2a::{ChatTool, ListEvents};
        use chorus_protocol::market::Registration;
        use chorus_protocol::relay::{Register, Send};
        use chorus_protocol::rpc::Message;
        use chorus_protocol::schema;
        for text in [text(Language::English), text(Language::Chinese)] {
            let bodies: Vec<_> = text
                .split("```")
                .skip(1)
                .step_by(2)
                .filter_map(|block| block.split_once("-d '")?.1.split_once('\''))
                .map(|(body, _)| body)
                .collect();
            assert_eq!(bodies.len(), 5);
            Register::read(&serde_json::from_str(bodies[0]).unwrap(), false).unwrap();
            let sent = Send::read(bodies[1].as_bytes()).unwrap();
            // Clients pass it on unchanged, and existing clients accept only a full address.
            assert!(bodies[1].contains("\"sender_id\": \"NAME@hub.test\""), "{sent:?}");
            schema::read_exact::<Registration>(bodies[2].as_bytes()).unwrap();
            schema::read_exact::<NewStream>(bodies[3].as_bytes()).unwrap();
            let Ok(Message::Request(call)) = Message::read(bodies[4].as_bytes()) else {
                panic!("{}", bodies[4])
            };
            assert_eq!(call.method, "tools/call");
            assert_eq!(call.params["name"], ChatTool::ListEvents.as_str());
            schema::read_exact::<ListEvents>(call.params["arguments"].to_string().as_bytes()).unwrap();
        }
    }

    #[test]
    fn the_language_that_is_liked_best() {
        for (header, chinese) in [
            ("", false),
            ("zh-CN", true),
            ("zh", true),
            ("ZH-hant-TW;q=0.3", true),
            ("zh-CN,zh;q=0.9,en;q=0.8", true),
            ("en-GB,en;q=0.9,zh;q=0.8", false),
            ("en;q=0.5, zh-CN;q=0.7", true),
            ("zh, en", true),
            ("en, zh", false),
            ("fr", false),
            ("fr, zh;q=0.1", true),
            ("zh;q=0", false),
            ("zh;q=0, fr", false),
            ("*", false),
            ("en;q=0, *", true),
            ("zh;q=0.2, *;q=0.5", false),
            ("en;q=0.2, *;q=0.5", true),
            ("zh;q=2", false),
            ("zh;q=x, en;q=0.1", false),
            ("zh ; Q = 0.9 , en ; q=0.8", true),
            ("zhx", false),
        ] {
            assert_eq!(Language::accepted(header) == Language::Chinese, chinese, "{header}");
        }
    }

    #[test]
    fn the_language_that_is_asked_for() {
        let asked = |uri: &str| Language::asked(&uri.parse().unwrap()).map(Language::tag);
        for (uri, tag) in [
            ("/skill", None),
            ("/skill?lang=", None),
            ("/skill?lang=zh-CN", Some("zh-CN")),
            ("/skill?x=1&lang=zh", Some("zh-CN")),
            ("/skill?lang=zh-Hant-TW", Some("zh-CN")),
            ("/skill?lang=zh_CN", Some("zh-CN")),
            ("/skill?lang=en", Some("en")),
            ("/skill?lang=tlh", Some("en")),
        ] {
            assert_eq!(asked(uri), tag, "{uri}");
        }
    }

    #[test]
    fn the_pointer_has_the_form_of_its_convention() {
        let text = llms_text();
        let mut lines = text.lines().filter(|line| !line.is_empty());
        assert!(lines.next().is_some_and(|line| line.starts_with("# ")));
        assert!(lines.next().is_some_and(|line| line.starts_with("> ")));
        assert!(lines.filter(|line| line.starts_with("- [")).count() > 3);
    }
}
