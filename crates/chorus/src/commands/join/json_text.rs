//! Edits of a JSON file as text: everything that is not edited stays byte for byte, with comments, order and
//! layout. Comments and trailing commas are understood, because several programs allow them.

/// The reason why a text cannot be edited.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum JsonTextFault {
    #[error("it is no JSON at byte {0}")]
    NotJson(usize),
    #[error("its {0} is not of the kind that is expected")]
    OtherKind(String),
    #[error("it has an entry {0} already")]
    Exists(String),
}

/// A text to insert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JsonInsertion {
    pub(super) at: usize,
    pub(super) text: String,
    /// The number of containers of the path that were there before.
    pub(super) depth_before: usize,
}

/// A member of an object, or an element of an array, by its bytes.
struct Part {
    key: Option<String>,
    start: usize,
    value: usize,
    end: usize,
}

struct Scanner<'t>(&'t [u8]);

impl Scanner<'_> {
    fn byte(&self, at: usize) -> Option<u8> {
        self.0.get(at).copied()
    }

    /// Skips white space and comments.
    fn skip(&self, mut at: usize) -> Result<usize, JsonTextFault> {
        loop {
            match (self.byte(at), self.byte(at + 1)) {
                (Some(b' ' | b'\t' | b'\r' | b'\n'), _) => at += 1,
                (Some(b'/'), Some(b'/')) => {
                    while self.byte(at).is_some_and(|byte| byte != b'\n') {
                        at += 1;
                    }
                }
                (Some(b'/'), Some(b'*')) => {
                    let rest = self.0.get(at + 2..).unwrap_or_default();
                    let end = rest.windows(2).position(|two| two == b"*/");
                    at += end.ok_or(JsonTextFault::NotJson(at))? + 4;
                }
                _ => return Ok(at),
            }
        }
    }

    /// Returns the end of the string that begins here.
    fn string(&self, start: usize) -> Result<usize, JsonTextFault> {
        let mut at = start + 1;
        loop {
            match self.byte(at) {
                Some(b'"') => return Ok(at + 1),
                Some(b'\\') => at += 2,
                Some(_) => at += 1,
                None => return Err(JsonTextFault::NotJson(start)),
            }
        }
    }

    /// Returns the end of the value that begins here. Brackets in it are counted, so that depth costs nothing.
    fn value(&self, start: usize) -> Result<usize, JsonTextFault> {
        let (mut at, mut open) = (start, 0_usize);
        loop {
            match self.byte(at) {
                Some(b'"') => at = self.string(at)?,
                Some(b'{' | b'[') => (at, open) = (at + 1, open + 1),
                Some(b'}' | b']') if open > 0 => (at, open) = (at + 1, open - 1),
                Some(b'}' | b']' | b',') if open == 0 => return not_empty(start, at),
                Some(_) if open > 0 => {
                    let next = self.skip(at)?;
                    at = if next == at { at + 1 } else { next };
                    continue;
                }
                Some(b' ' | b'\t' | b'\r' | b'\n' | b'/') | None => return not_empty(start, at),
                Some(_) => {
                    at += 1;
                    continue;
                }
            }
            if open == 0 {
                return Ok(at);
            }
        }
    }

    /// Returns the parts of the object or array that begins here.
    fn parts(&self, start: usize) -> Result<Vec<Part>, JsonTextFault> {
        let is_object = self.byte(start) == Some(b'{');
        let (mut parts, mut at) = (vec![], self.skip(start + 1)?);
        while !matches!(self.byte(at), Some(b'}' | b']')) {
            let (begin, mut key) = (at, None);
            if is_object {
                if self.byte(at) != Some(b'"') {
                    return Err(JsonTextFault::NotJson(at));
                }
                let end = self.string(at)?;
                key = serde_json::from_slice(&self.0[at..end]).ok();
                at = self.skip(end)?;
                if self.byte(at) != Some(b':') {
                    return Err(JsonTextFault::NotJson(at));
                }
                at = self.skip(at + 1)?;
            }
            let end = self.value(at)?;
            parts.push(Part { key, start: begin, value: at, end });
            at = self.skip(end)?;
            match self.byte(at) {
                Some(b',') => at = self.skip(at + 1)?,
                Some(b'}' | b']') => {}
                _ => return Err(JsonTextFault::NotJson(at)),
            }
        }
        Ok(parts)
    }

    /// Returns the beginning of the whole value.
    fn root(&self) -> Result<usize, JsonTextFault> {
        let at = self.skip(if self.0.starts_with("\u{feff}".as_bytes()) { 3 } else { 0 })?;
        match self.byte(at) {
            Some(b'{') => Ok(at),
            _ => Err(JsonTextFault::NotJson(at)),
        }
    }
}

/// Returns the insertion of a member at the end of this path, or of an element at the end of the array with
/// this path. Containers that are missing are made.
pub(super) fn insert(
    text: &str,
    path: &[&str],
    value: &serde_json::Value,
    is_element: bool,
) -> Result<JsonInsertion, JsonTextFault> {
    let scanner = Scanner(text.as_bytes());
    let mut at = scanner.root()?;
    for (depth, key) in path.iter().enumerate() {
        let parts = scanner.parts(at)?;
        let Some(found) = parts.iter().find(|part| part.key.as_deref() == Some(key)) else {
            let whole = if is_element { serde_json::json!([value]) } else { value.clone() };
            let whole =
                path[depth + 1..].iter().rev().fold(whole, |inner, key| serde_json::json!({*key: inner}));
            let fragment = format!("{}: {}", serde_json::json!(key), pretty(&whole, depth + 1));
            return Ok(placed(at, &parts, &fragment, depth));
        };
        let is_last = depth + 1 == path.len();
        if is_last && !is_element {
            return Err(JsonTextFault::Exists(path.join(".")));
        }
        let wanted = if is_last { b'[' } else { b'{' };
        if scanner.byte(found.value) != Some(wanted) {
            return Err(JsonTextFault::OtherKind(path[..=depth].join(".")));
        }
        at = found.value;
    }
    let parts = scanner.parts(at)?;
    Ok(placed(at, &parts, &pretty(value, path.len() + 1), path.len()))
}

/// Places a fragment at the end of the container that begins at `start`.
fn placed(start: usize, parts: &[Part], fragment: &str, depth: usize) -> JsonInsertion {
    let indent = "  ".repeat(depth + 1);
    let (at, text) = match parts.last() {
        Some(last) => (last.end, format!(",\n{indent}{fragment}")),
        None => (start + 1, format!("\n{indent}{fragment}\n{}", "  ".repeat(depth))),
    };
    JsonInsertion { at, text, depth_before: depth }
}

/// Formats a value in several lines, indented like the lines around it.
fn pretty(value: &serde_json::Value, depth: usize) -> String {
    format!("{value:#}").replace('\n', &format!("\n{}", "  ".repeat(depth)))
}

/// Removes a member, or the elements of an array that contain `marker`, and then the containers of the path
/// beyond the first `depth_before` that are empty. Returns the text without them, or `None` if there was nothing.
pub(super) fn remove(
    text: &str,
    path: &[&str],
    marker: Option<&str>,
    depth_before: usize,
) -> Result<Option<String>, JsonTextFault> {
    let Some((start, parts)) = container(text, path, marker.is_some())? else { return Ok(None) };
    let is_ours = |part: &Part| match marker {
        Some(marker) => text[part.value..part.end].contains(marker),
        None => part.key.as_deref() == path.last().copied(),
    };
    let Some(place) = parts.iter().position(is_ours) else { return Ok(None) };
    let mut left = without(text, start, &parts, place)?;
    if marker.is_some() {
        // Several elements may be ours.
        while let Some(again) = remove(&left, path, marker, path.len())? {
            left = again;
        }
    }
    let deepest = if marker.is_some() { path.len() } else { path.len() - 1 };
    for depth in ((depth_before + 1)..=deepest).rev() {
        let Some((start, parts)) = container(&left, &path[..depth], false)? else { break };
        let Some(place) = parts.iter().position(|part| part.key.as_deref() == Some(path[depth - 1])) else {
            break;
        };
        if !Scanner(left.as_bytes()).parts(parts[place].value)?.is_empty() {
            break;
        }
        left = without(&left, start, &parts, place)?;
    }
    Ok(Some(left))
}

/// Returns the container at the end of a path, or the one of its last member.
fn container(text: &str, path: &[&str], is_array: bool) -> Result<Option<(usize, Vec<Part>)>, JsonTextFault> {
    let scanner = Scanner(text.as_bytes());
    let mut at = scanner.root()?;
    let down = if is_array { path } else { &path[..path.len().saturating_sub(1)] };
    for key in down {
        let parts = scanner.parts(at)?;
        match parts.iter().find(|part| part.key.as_deref() == Some(key)) {
            Some(part) if matches!(scanner.byte(part.value), Some(b'{' | b'[')) => at = part.value,
            _ => return Ok(None),
        }
    }
    Ok(Some((at, scanner.parts(at)?)))
}

/// Returns the text without one part and the comma that separates it.
fn without(text: &str, start: usize, parts: &[Part], place: usize) -> Result<String, JsonTextFault> {
    let scanner = Scanner(text.as_bytes());
    let part = &parts[place];
    let (from, to) = match (place.checked_sub(1).map(|before| &parts[before]), parts.get(place + 1)) {
        (Some(before), _) => (before.end, part.end),
        (None, Some(next)) => (part.start, next.start),
        (None, None) => {
            let end = scanner.skip(part.end)?;
            let end = if scanner.byte(end) == Some(b',') { scanner.skip(end + 1)? } else { end };
            (start + 1, end)
        }
    };
    Ok(format!("{}{}", &text[..from], &text[to..]))
}

/// Returns the end of a value, which must have at least one byte.
fn not_empty(start: usize, end: usize) -> Result<usize, JsonTextFault> {
    if end > start { Ok(end) } else { Err(JsonTextFault::NotJson(start)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn inserted(text: &str, path: &[&str], value: &Value, is_element: bool) -> (String, JsonInsertion) {
        let found = insert(text, path, value, is_element).unwrap();
        (format!("{}{}{}", &text[..found.at], found.text, &text[found.at..]), found)
    }

    #[test]
    fn a_member_and_an_element_come_and_go() {
        let value = json!({"command": "chorus", "args": ["mcp"]});
        for text in [
            "{}",
            "{ }\n",
            "{\"a\": 1}",
            "{\n  \"a\": [1, {\"b\": \"}\\\"\"}],\n  \"mcpServers\": {}\n}\n",
            "{\"mcpServers\": {\"x\": {\"command\": \"y\"}}, \"z\": null}",
            "// a comment, with \"quotes\" {\n{\n  /* } */ \"a\": true, // last\n}\n",
            "\u{feff}{\"hooks\": {\"Stop\": [ 1 , 2 ]}}",
        ] {
            for (path, is_element) in [(&["mcpServers", "chorus"][..], false), (&["hooks", "Stop"], true)] {
                let (with, found) = inserted(text, path, &value, is_element);
                let removed =
                    remove(&with, path, is_element.then_some("\"mcp\""), found.depth_before).unwrap();
                assert!(!removed.clone().unwrap().contains("chorus"), "{text}: {with}");
                let squeezed = |text: &str| text.split_whitespace().collect::<String>();
                assert_eq!(squeezed(&removed.unwrap()), squeezed(text), "{with}");
                if let Ok(parsed) = serde_json::from_str::<Value>(&with) {
                    let place = path.iter().fold(&parsed, |value, key| &value[*key]);
                    let last = if is_element { place.as_array().unwrap().last().unwrap() } else { place };
                    assert_eq!(last, &value, "{with}");
                }
            }
        }
    }

    #[test]
    fn what_others_wrote_is_not_touched() {
        let value = json!(1);
        assert_eq!(
            insert("{\"mcpServers\": {\"chorus\": 2}}", &["mcpServers", "chorus"], &value, false),
            Err(JsonTextFault::Exists("mcpServers.chorus".into()))
        );
        let other = insert("{\"hooks\": []}", &["hooks", "Stop"], &value, true);
        assert_eq!(other, Err(JsonTextFault::OtherKind("hooks".into())));
        for wrong in
            ["", "[]", "{\"a\" 1}", "{\"a\": }", "{\"a\": \"b}", "nonsense", "{\"a\": 1 \"b\": 2}", "{/* "]
        {
            assert!(
                matches!(insert(wrong, &["x"], &value, false), Err(JsonTextFault::NotJson(_))),
                "{wrong}"
            );
        }
        assert_eq!(remove("{\"a\": {\"b\": 1}}", &["a", "c"], None, 0).unwrap(), None);
    }
}
