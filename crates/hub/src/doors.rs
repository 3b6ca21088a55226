//! The HTTP doors of the protocols: each parses a request, calls an act, and renders its result.
//!
//! Invariants live in the acts and their transactions, not here. A door does not use another door; code that
//! several share stands beside this folder.

pub(crate) mod api;
pub(crate) mod c2a;
pub(crate) mod channel;
pub(crate) mod choir;
pub(crate) mod hub;
pub(crate) mod market;
pub(crate) mod mcp;
pub(crate) mod pages;
pub(crate) mod relay;
pub(crate) mod skill;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    fn files(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
    }

    /// Doors import neither the store nor each other, and the middleware knows no path.
    #[test]
    fn doors_know_neither_the_store_nor_each_other_and_the_middleware_no_path() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let doors = source.join("doors");
        let read = |path: &Path| fs::read_to_string(path).unwrap();
        let all = files(&doors);
        assert!(all.len() > 20);
        for path in all {
            let own =
                path.strip_prefix(&doors).unwrap().iter().next().unwrap().to_string_lossy().into_owned();
            let (own, text) = (own.trim_end_matches(".rs"), read(&path));
            let text = text.split("#[cfg(test)]").next().unwrap();
            assert!(!text.contains("chorus_store"), "{}", path.display());
            for (_, import) in
                text.match_indices("doors::").map(|(at, found)| (at, &text[at + found.len()..]))
            {
                assert!(import.starts_with(own), "{}: {}", path.display(), &import[..20.min(import.len())]);
            }
        }
        let middleware = read(&source.join("middleware.rs"));
        assert!(!middleware.split("#[cfg(test)]").next().unwrap().contains("\"/"));
    }
}
