//! The options of all commands: the hub, the key, and the output format.

use crate::failure::Explained;
use crate::output::one_line;
use crate::profiles::{self, Profile};
use chorus_agent::{Client, ClientError};
use chorus_protocol::api::Items;
use chorus_protocol::credentials::SecretKind;
use serde::de::DeserializeOwned;

/// The hub that is asked if nothing names another.
pub(crate) const DEFAULT_URL: &str = "http://127.0.0.1:8787";

/// The advice for a person without a token.
const NO_TOKEN: &str = "people sign in on the hub's page and make a token there; agents have a key from `chorus register NAME`; `chorus login URL` \
     keeps either";

/// The number of items in one request, and the limit of pages.
const PAGE: &str = "200";
const MAX_PAGES: usize = 10_000;

const NO_OPERATOR: &str = "the hub printed it, co_…, at its first start, or it is the hub's CHORUS_OPERATOR_KEY; pass it with --key, \
                          or `export CHORUS_KEY=…`";

const NO_KEY: &str = "`chorus register NAME` prints one; pass it with --key, `export CHORUS_KEY=…`, or keep it with \
                      `chorus login`";

/// Options of all commands.
#[derive(clap::Args)]
pub(crate) struct Global {
    /// The hub's URL [default: that of the profile, else http://127.0.0.1:8787]
    #[arg(long, global = true, env = "CHORUS_URL", help_heading = "Global options")]
    url: Option<String>,
    /// The key that identifies the caller; better in the environment, where other users cannot see it
    #[arg(long, global = true, env = "CHORUS_KEY", hide_env_values = true, help_heading = "Global options")]
    key: Option<String>,
    /// The profile of `chorus login` that is used where no URL or key is given [default: default]
    #[arg(long, global = true, value_name = "NAME", env = "CHORUS_PROFILE", help_heading = "Global options")]
    profile: Option<String>,
    /// The key is that of the profile.
    #[arg(skip)]
    has_profile_key: bool,
    /// Print JSON, for programs
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) json: bool,
}

/// Checks for `--json` among arguments that could not be parsed.
pub(crate) fn is_json_asked() -> bool {
    // The arguments after `--` are data.
    std::env::args_os().skip(1).take_while(|argument| argument != "--").any(|argument| argument == "--json")
}

/// Treats an empty variable as unset.
fn non_empty(value: Option<&String>) -> Option<&str> {
    value.map(String::as_str).filter(|value| !value.is_empty())
}

impl Global {
    /// Takes the URL and the key from the profile where they are not given.
    pub(crate) fn use_profile(&mut self) -> anyhow::Result<()> {
        match profiles::read(self.profile_name())? {
            Some(profile) => self.fill_from(profile),
            None if self.is_profile_named() => Err(profiles::absent(self.profile_name())),
            None => Ok(()),
        }
    }

    fn fill_from(&mut self, profile: Profile) -> anyhow::Result<()> {
        match non_empty(self.url.as_ref()) {
            None => self.url = Some(profile.url),
            Some(url) if profile.is_for(url) => {}
            Some(url) if self.is_profile_named() => {
                let (name, own, url) = (self.profile_name(), one_line(&profile.url), one_line(url));
                let what = format!("the profile {name} is for {own}, and --url or CHORUS_URL names {url}");
                return Err(Explained::usage(what, "leave out one of the two").into());
            }
            // A key is sent only to the hub that it was kept for.
            Some(_) => return Ok(()),
        }
        if !self.has_key() {
            (self.key, self.has_profile_key) = (Some(profile.key), true);
        }
        Ok(())
    }

    pub(crate) fn profile_name(&self) -> &str {
        non_empty(self.profile.as_ref()).unwrap_or(profiles::DEFAULT_NAME)
    }

    fn is_profile_named(&self) -> bool {
        non_empty(self.profile.as_ref()).is_some()
    }

    /// Returns whether the key is that of the profile.
    pub(crate) fn has_profile_key(&self) -> bool {
        self.has_profile_key
    }

    /// Creates a client, with the key if there is one.
    pub(crate) fn client(&self) -> Result<Client, ClientError> {
        Client::connect(self.url(), self.key().map(str::to_owned))
    }

    /// Returns the hub's URL. An empty variable counts as unset.
    pub(crate) fn url(&self) -> &str {
        non_empty(self.url.as_ref()).unwrap_or(DEFAULT_URL)
    }

    pub(crate) fn key(&self) -> Option<&str> {
        non_empty(self.key.as_ref())
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

    fn global(url: Option<&str>, key: Option<&str>, profile: Option<&str>) -> Global {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Global {
            url: owned(url),
            key: owned(key),
            profile: owned(profile),
            has_profile_key: false,
            json: false,
        }
    }

    #[test]
    fn a_profile_fills_what_is_not_given() {
        let (own, other) = ("https://own.example", "https://other.example");
        for (url, key, expected) in [
            (None, None, (own, Some("ct_own"), true)),
            (Some(""), Some(""), (own, Some("ct_own"), true)),
            (Some("https://own.example/"), None, ("https://own.example/", Some("ct_own"), true)),
            (None, Some("ca_x"), (own, Some("ca_x"), false)),
            (Some(other), None, (other, None, false)),
            (Some(other), Some("ca_x"), (other, Some("ca_x"), false)),
        ] {
            let mut global = global(url, key, None);
            global.fill_from(Profile { url: own.into(), key: "ct_own".into() }).unwrap();
            assert_eq!((global.url(), global.key(), global.has_profile_key()), expected, "{url:?} {key:?}");
        }
        let mut named = global(Some(other), None, Some("own"));
        let error = named.fill_from(Profile { url: own.into(), key: "ct_own".into() }).unwrap_err();
        assert!(error.to_string().contains("the profile own is for https://own.example"), "{error}");
        assert_eq!(named.key(), None);
    }

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
