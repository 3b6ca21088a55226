//! Keeps the modules of every large crate in layers: no circle of imports, neither between the top-level modules of a crate nor between
//! the files of a folder.
//!
//! One test reads the sources of the whole workspace, so a crate that grows past the limit is checked without a change here. Unit tests
//! at the end of a file are not checked: they may use anything.

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::fs;
    use std::path::{Path, PathBuf};

    /// Crates with more lines than this are checked.
    const MAX_UNCHECKED_LINES: usize = 3000;

    /// Crates whose folders use single files of each other, so that they have circles between folders.
    const WITH_CIRCLES: [&str; 2] = ["protocol", "store"];

    type Imports = BTreeMap<String, BTreeSet<String>>;

    fn files(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
    }

    /// The source files of a crate with their content, without files of tests.
    fn sources(source: &Path) -> Vec<(PathBuf, String)> {
        let is_source =
            |path: &PathBuf| path.extension().is_some_and(|end| end == "rs") && !path.ends_with("tests.rs");
        let read = |path: PathBuf| {
            let text = fs::read_to_string(&path).unwrap();
            (path, text)
        };
        files(source).into_iter().filter(is_source).map(read).collect()
    }

    /// Returns the names that a file imports from the crate's root (`crate::`) or from its folder (`super::`).
    fn imports(text: &str, from: &str) -> Vec<String> {
        let text = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let code: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        code.split(from).skip(1).flat_map(first_names).collect()
    }

    /// Returns the first name of a path, or of each path in `{a::{b, c}, d}`.
    fn first_names(path: &str) -> Vec<String> {
        let Some(group) = path.strip_prefix('{') else {
            return vec![path.split([':', ';', ' ', ')', ',']).next().unwrap_or_default().to_owned()];
        };
        let (mut depth, mut names) = (0, vec![String::new()]);
        for sign in group.chars() {
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
    }

    /// Removes modules that import no other one until none is left. Those that stay are in a circle or above one.
    fn remove_layers(mut modules: Imports) -> Imports {
        let lowest = |modules: &Imports| {
            let mut lowest =
                modules.iter().filter(|(_, uses)| uses.iter().all(|name| !modules.contains_key(name)));
            lowest.next().map(|(name, _)| name.clone())
        };
        while let Some(name) = lowest(&modules) {
            modules.remove(&name);
        }
        modules
    }

    fn top_level(source: &Path, sources: &[(PathBuf, String)]) -> Imports {
        let mut modules = Imports::new();
        for (path, text) in sources {
            let inside = path.strip_prefix(source).unwrap().to_str().unwrap();
            let name = inside.split(['/', '.']).next().unwrap().to_owned();
            if name != "lib" && name != "main" {
                let uses = imports(text, "crate::").into_iter().filter(|used| *used != name);
                modules.entry(name.clone()).or_default().extend(uses);
            }
        }
        modules
    }

    fn folders(sources: &[(PathBuf, String)]) -> BTreeMap<PathBuf, Imports> {
        let mut folders: BTreeMap<PathBuf, Imports> = BTreeMap::new();
        for (path, text) in sources {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let uses = imports(text, "super::").into_iter().filter(|used| *used != name).collect();
            folders.entry(path.parent().unwrap().to_owned()).or_default().insert(name, uses);
        }
        folders
    }

    #[test]
    fn first_names_of_nested_groups_are_read() {
        let code = "use crate::{a::{b, c::d}, e};\nuse crate::f::g;\nfn x() -> crate::h { crate::i::j() }";
        assert_eq!(imports(code, "crate::"), ["a", "e", "f", "h", "i"]);
    }

    #[test]
    fn a_circle_is_found() {
        let modules = |pairs: &[(&str, &str)]| -> Imports {
            pairs
                .iter()
                .map(|(name, used)| ((*name).to_owned(), BTreeSet::from([(*used).to_owned()])))
                .collect()
        };
        assert!(remove_layers(modules(&[("a", "b"), ("b", "c"), ("c", "std")])).is_empty());
        assert_eq!(remove_layers(modules(&[("a", "b"), ("b", "c"), ("c", "b"), ("d", "std")])).len(), 3);
    }

    #[test]
    fn modules_of_large_crates_know_each_other_one_way() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let (mut checked, mut circles) = (0, vec![]);
        for entry in fs::read_dir(crates).unwrap() {
            let folder = entry.unwrap().path();
            let (name, source) =
                (folder.file_name().unwrap().to_str().unwrap().to_owned(), folder.join("src"));
            if !source.is_dir() || WITH_CIRCLES.contains(&name.as_str()) {
                continue;
            }
            let sources = sources(&source);
            if sources.iter().map(|(_, text)| text.lines().count()).sum::<usize>() <= MAX_UNCHECKED_LINES {
                continue;
            }
            checked += 1;
            let mut groups = folders(&sources);
            // The files directly in `src` are the top-level modules, together with their folders.
            groups.insert(source.clone(), top_level(&source, &sources));
            for (place, modules) in groups {
                let left = remove_layers(modules);
                if !left.is_empty() {
                    circles.push((place, left));
                }
            }
        }
        assert!(checked >= 8, "only {checked} crates were found");
        assert!(circles.is_empty(), "a circle, or above one: {circles:#?}");
    }
}
