//! Embedded assets of the pages. Each file name contains a hash of the content, so browsers may cache it for
//! ever.

use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use chorus_node::AppState;
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use std::sync::LazyLock;

struct Asset {
    name: String,
    kind: &'static str,
    content: String,
}

const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

macro_rules! assets {
    ($($function:ident: $stem:literal, $ending:literal, $kind:expr;)+) => {
        static ASSETS: LazyLock<Vec<Asset>> = LazyLock::new(|| {
            let mut made = vec![];
            $(
                let content = include_str!(concat!("../assets/", $stem, ".", $ending));
                made.push(asset(&made, $stem, $ending, $kind, content));
            )+
            made
        });
        $(
            pub(crate) fn $function() -> &'static str {
                let stem = concat!($stem, "-");
                ASSETS.iter().find(|asset| asset.name.starts_with(stem)).map_or("", |asset| &asset.name)
            }
        )+
    };
}

assets! {
    style: "chorus", "css", CSS;
    script: "shell", "js", SCRIPT;
    market_style: "market", "css", CSS;
    countdown_script: "countdown", "js", SCRIPT;
    composer_script: "composer", "js", SCRIPT;
    conversation_script: "conversation", "js", SCRIPT;
    side_script: "side", "js", SCRIPT;
    items_script: "items", "js", SCRIPT;
    turns_script: "turns", "js", SCRIPT;
    reading_script: "reading", "js", SCRIPT;
    passing_script: "passing", "js", SCRIPT;
    acts_script: "acts", "js", SCRIPT;
    channel_script: "channel", "js", SCRIPT;
    choir_style: "choir", "css", CSS;
    canonical_script: "canonical", "js", SCRIPT;
    verify_script: "verify", "js", SCRIPT;
    score_script: "score", "js", SCRIPT;
    api_script: "api", "js", SCRIPT;
    mark: "mark", "svg", SVG;
}

/// Returns the scripts to preload on a conversation page, so that the browser fetches them in parallel.
pub(crate) fn conversation_scripts() -> [&'static str; 8] {
    [
        composer_script(),
        conversation_script(),
        items_script(),
        side_script(),
        turns_script(),
        reading_script(),
        passing_script(),
        acts_script(),
    ]
}

/// Builds one asset. Imports of earlier assets are replaced by their hashed names.
fn asset(made: &[Asset], stem: &str, ending: &str, kind: &'static str, content: &str) -> Asset {
    let content = made.iter().fold(content.to_owned(), |content, other| {
        let plain = other.name.rsplit_once('-').map_or("", |(stem, _)| stem);
        content.replace(&format!("from \"./{plain}.js\""), &format!("from \"./{}\"", other.name))
    });
    let hash = HEXLOWER.encode(&Sha256::digest(&content)[..6]);
    Asset { name: format!("{stem}-{hash}.{ending}"), kind, content }
}

pub(crate) fn routes() -> Router<AppState> {
    Router::new().route("/assets/{name}", get(show))
}

async fn show(Path(name): Path<String>) -> Response {
    let found = ASSETS.iter().find(|asset| asset.name == name);
    // Scripts request assets, so a missing one needs no error page.
    let Some(asset) = found else { return StatusCode::NOT_FOUND.into_response() };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(asset.kind)),
        (header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable")),
    ];
    (headers, &*asset.content).into_response()
}

#[cfg(test)]
mod tests {
    use super::ASSETS;
    use chorus_protocol::words::Reason;

    /// A script may import only scripts that stand before it in the list.
    #[test]
    fn scripts_name_those_they_need_by_their_hashes() {
        for asset in ASSETS.iter() {
            for needed in asset.content.split("from \"./").skip(1).filter_map(|rest| rest.split('"').next()) {
                assert!(ASSETS.iter().any(|other| other.name == needed), "{}: {needed}", asset.name);
            }
        }
    }

    /// The composer's preview has a text for every reason that the hub returns.
    #[test]
    fn every_reason_has_words() {
        let script = include_str!("../assets/composer.js");
        let words = script.split("const WORDS = {").nth(1).and_then(|rest| rest.split('}').next()).unwrap();
        for reason in Reason::ALL {
            assert!(words.contains(&format!("{}: \"", reason.as_str())), "{}", reason.as_str());
        }
    }
}
