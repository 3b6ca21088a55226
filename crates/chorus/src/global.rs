//! The options of all commands: the hub, the key, and the output format.

use crate::failure::Explained;
use chorus_agent::{Client, ClientError};
use chorus_protocol::api::Items;
use chorus_protocol::credentials::SecretKind;
use serde::de::DeserializeOwned;

const DEFAULT_URL: &str = "http://127.0.0.1:8787";

/// The advice for a person without a token.
const NO_TOKEN: &str =
    "people sign in on the hub's page and make a token there; agents have a key from `chorus register NAME`";

/// The number of items in one request, and the limit of pages.
const PAGE: &str = "200";
const MAX_PAGES: usize = 10_000;

const NO_OPERATOR: &str = "the hub printed it, co_…, at its first start, or it is the hub's CHORUS_OPERATOR_KEY; pass it with --key, \
                          or `export CHORUS_KEY=…`";

const NO_KEY: &str = "`chorus register NAME` prints one; pass it with --key, or `export CHORUS_KEY=…`";

/// Options of all commands.
#[derive(clap::Args)]
pub(crate) struct Global {
    /// The hub's URL
    #[arg(long, global = true, env = "CHORUS_URL", default_value = DEFAULT_URL, help_heading = "Global options")]
    url: String,
    /// The key that identifies the caller; better in the environment, where other users cannot see it
    #[arg(long, global = true, env = "CHORUS_KEY", hide_env_values = true, help_heading = "Global options")]
    key: Option<String>,
    /// Print JSON, for programs
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) json: bool,
}

/// Checks for `--json` among arguments that could not be parsed.
pub(crate) fn is_json_asked() -> bool {
    // The arguments after `--` are data.
    std::env::args_os().skip(1).take_while(|argument| argument != "--").any(|argument| argument == "--json")
}

impl Global {
    /// Creates a client, with the key if there is one.
    pub(crate) fn client(&self) -> Result<Client, ClientError> {
        Client::connect(self.url(), self.key().map(str::to_owned))
    }

    /// Returns the hub's URL. An empty variable counts as unset.
    pub(crate) fn url(&self) -> &str {
        if self.url.is_empty() { DEFAULT_URL } else { &self.url }
    }

    pub(crate) fn key(&self) -> Option<&str> {
        self.key.as_deref().filter(|key| !key.is_empty())
    }

    /// Returns the kind of the given key, by its prefix.
    pub(crate) fn key_kind(&self) -> Option<SecretKind> {
        let key = self.key()?;
        SecretKind::all().find(|kind| key.starts_with(kind.prefix()))
    }

    pub(crate) fn has_key(&self) -> bool {
        self.key().is_some()
    }

    /// Creates a client for commands that require any key.
    pub(crate) fn keyed_client(&self) -> anyhow::Result<Client> {
        if !self.has_key() {
            return Err(Explained::usage("this needs a key", NO_TOKEN).into());
        }
        Ok(self.client()?)
    }

    /// Creates a client for commands of the operator.
    pub(crate) fn operator_client(&self) -> anyhow::Result<Client> {
        if !self.has_key() {
            return Err(Explained::usage("this needs the operator's key", NO_OPERATOR).into());
        }
        Ok(self.client()?)
    }

    /// Returns all items of a list of `/api/v1`.
    pub(crate) async fn all_items<T: DeserializeOwned>(
        &self,
        path: &[&str],
        filter: &[(&str, &str)],
    ) -> anyhow::Result<Vec<T>> {
        let client = self.keyed_client()?;
        all_pages(filter, async |query: Vec<(&str, &str)>| client.api_get(path, &query).await).await
    }

    /// Returns all items of a list of `/market`.
    pub(crate) async fn all_market_items<T: DeserializeOwned>(
        &self,
        path: &[&str],
        filter: &[(&str, &str)],
    ) -> anyhow::Result<Vec<T>> {
        let client = self.keyed_client()?;
        all_pages(filter, async |query: Vec<(&str, &str)>| client.market_get(path, &query).await).await
    }

    /// Creates a client for commands of an agent.
    pub(crate) fn agent_client(&self) -> anyhow::Result<Client> {
        if !self.has_key() {
            return Err(Explained::usage("this needs the key of an agent", NO_KEY).into());
        }
        Ok(self.client()?)
    }
}

/// Reads all pages of a list.
async fn all_pages<T>(
    filter: &[(&str, &str)],
    get: impl AsyncFn(Vec<(&str, &str)>) -> Result<Items<T>, ClientError>,
) -> anyhow::Result<Vec<T>> {
    let (mut items, mut after) = (Vec::new(), None::<String>);
    for _ in 0..MAX_PAGES {
        let mut query = [filter, &[("limit", PAGE)]].concat();
        query.extend(after.as_deref().map(|after| ("after", after)));
        let page = get(query).await?;
        items.extend(page.items);
        match page.next {
            Some(next) if Some(&next) != after.as_ref() => after = Some(next),
            _ => return Ok(items),
        }
    }
    Err(ClientError::Protocol("the hub's list does not come to an end".into()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lists_are_read_to_their_end() {
        let get = async |query: Vec<(&str, &str)>| {
            let after = query
                .iter()
                .find(|(name, _)| *name == "after")
                .map_or(0, |(_, after)| after.parse().unwrap());
            assert_eq!(query[..2], [("owner", "acme"), ("limit", PAGE)]);
            let next = (after < 2).then(|| (after + 1).to_string());
            Ok(Items { items: vec![after], next })
        };
        assert_eq!(all_pages(&[("owner", "acme")], get).await.unwrap(), [0, 1, 2]);
        let endless = async |_: Vec<(&str, &str)>| Ok(Items { items: vec![1], next: Some("x".into()) });
        assert_eq!(all_pages(&[], endless).await.unwrap(), [1, 1], "a cursor that stands still ends it");
    }
}
