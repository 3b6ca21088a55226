//! What can be done on a hub: acts, delivery, who may do what, and how things are shown.
//!
//! An act is one thing that can be done, written once, whatever door asks for it: it checks who may, masks credentials,
//! runs its transaction (or two, where somebody else is waited for in between) and hands on what was committed. It knows the store,
//! the engines and the protocol, and no HTTP request: doors parse, call an act and render what it returns.
//!
//! Folders know each other one way: [`transport`] is what a node carries things by and, with the files beside it that keep something
//! in memory, what an [`App`] is made of; `attention`, [`delivery`] and the acts are above that, [`reconcilers`] above the acts.
//!
//! What always holds: success means committed to disk; text with credentials in it is never appended to a conversation;
//! a request that comes twice under one key is done once.

#![expect(missing_docs, reason = "a part of this program, not a library: what a name says is not said again")]

pub mod accounts;
mod admission;
pub mod agents;
mod app;
pub mod attention;
pub mod audit;
pub mod authenticate;
mod away;
mod background;
pub mod blocks;
mod budget;
pub mod c2a;
pub mod caller;
pub mod callers;
pub mod channel;
pub mod charge;
pub mod choir;
mod config;
pub mod conversation;
pub mod dangers;
pub mod deliveries;
pub mod delivery;
mod error;
pub mod exclusive_work;
mod fingerprint;
pub mod finish_detached;
pub mod fleet;
mod harness_log;
mod health;
pub mod health_report;
pub mod lines;
mod long_work;
pub mod look_ups;
pub mod mail;
pub mod mail_limits;
mod mailer;
pub mod market;
mod market_memory;
pub mod mcp_sessions;
pub mod metrics;
pub mod once;
pub mod open_streams;
pub mod operator;
pub mod page;
mod principal_ref;
mod proxies;
pub mod quotas;
pub mod rate;
pub mod reconcilers;
mod registrations;
pub mod relay;
pub mod sealing;
pub mod secrets;
mod tool_log;
mod tool_schema;
pub mod tools;
pub mod trail;
pub mod transport;
mod turns_saved;
pub mod usage;
pub mod views;
pub mod webhooks;
pub mod work_streams;

pub use app::{App, AppState};
pub use caller::key_hash;
pub use config::{Config, Signup, TimeLimits};
pub use error::{Error, Refused};
pub use fingerprint::{FINGERPRINT, FingerprintError, check_fingerprint, keep_fingerprint};
pub use long_work::long_work;
pub use proxies::TrustedProxies;
pub use secrets::MasterKey;

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::fs;
    use std::path::{Path, PathBuf};

    fn files(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
    }

    /// What a file takes from the crate's root (`crate::`) or from its folder (`super::`), but for its tests.
    fn imports(text: &str, from: &str) -> Vec<String> {
        let text = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let code: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        // Of `{a::{b, c}, d}` the names at its outermost level.
        let names = |rest: &str| {
            let Some(several) = rest.strip_prefix('{') else {
                return vec![rest.split([':', ';', ' ', ')', ',']).next().unwrap_or_default().to_owned()];
            };
            let (mut depth, mut names) = (0, vec![String::new()]);
            for sign in several.chars() {
                match sign {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => names.push(String::new()),
                    _ if depth == 0 => names.last_mut().unwrap().push(sign),
                    _ => {}
                }
            }
            names.iter().map(|name| name.trim().split("::").next().unwrap_or_default().to_owned()).collect()
        };
        code.split(from).skip(1).flat_map(names).collect()
    }

    #[test]
    fn names_behind_a_nested_one_are_read() {
        let code = "use crate::{a::{b, c::d}, e};\nuse crate::f::g;\nfn x() -> crate::h { crate::i::j() }";
        assert_eq!(imports(code, "crate::"), ["a", "e", "f", "h", "i"]);
    }

    /// Folders, and the files beside them, stand on floors: none imports what is above it.
    #[test]
    fn modules_know_each_other_one_way() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut modules: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for path in
            files(&source).iter().filter(|path| !path.ends_with("tests.rs") && !path.ends_with("lib.rs"))
        {
            let inside = path.strip_prefix(&source).unwrap().to_str().unwrap();
            let name = inside.split(['/', '.']).next().unwrap().to_owned();
            let taken =
                imports(&fs::read_to_string(path).unwrap(), "crate::").into_iter().filter(|one| *one != name);
            modules.entry(name.clone()).or_default().extend(taken);
        }
        stand_on_floors(modules);
    }

    /// The same of the files in each folder.
    #[test]
    fn files_know_each_other_one_way() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut folders: BTreeMap<PathBuf, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
        for path in files(&source).iter().filter(|path| !path.ends_with("tests.rs")) {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let taken = imports(&fs::read_to_string(path).unwrap(), "super::").into_iter();
            let taken = taken.filter(|one| *one != name).collect();
            folders.entry(path.parent().unwrap().to_owned()).or_default().insert(name, taken);
        }
        assert!(folders.len() > 10);
        folders.into_values().for_each(stand_on_floors);
    }

    fn stand_on_floors(mut modules: BTreeMap<String, BTreeSet<String>>) {
        let ground = |modules: &BTreeMap<String, BTreeSet<String>>| {
            let mut on_nothing =
                modules.iter().filter(|(_, taken)| taken.iter().all(|one| !modules.contains_key(one)));
            on_nothing.next().map(|(name, _)| name.clone())
        };
        while let Some(name) = ground(&modules) {
            modules.remove(&name);
        }
        assert!(modules.is_empty(), "a circle, or above one: {:?}", modules.keys());
    }
}
