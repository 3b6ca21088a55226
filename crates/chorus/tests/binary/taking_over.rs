//! `chorus score claim`: claims a Score that is held by an edit link.

use crate::choir::example;
use crate::hub::{Hub, serve};
use crate::terminal::{Terminal, text};

#[test]
fn a_score_is_claimed_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = serve(&folder.path().join("hub"), None);
    command.env("CHORUS_ANONYMOUS_SCORES", "on");
    let at = Terminal { hub: Hub::run(command), folder };
    let (anna, ben) = (at.person("anna"), at.person("ben"));
    let made = at.json("", &["score", "create", &example("score.json")]);
    let (id, link) = (text(&made["score_id"]), text(&made["edit_link"]));
    assert!(link.contains("/edit/es_"), "{link}");
    at.run(&anna, &["score", "show", &id]).failed(3, "no such");

    let (begin, last) = link.split_at(link.len() - 1);
    let wrong = format!("{begin}{}", if last == "0" { "1" } else { "0" });
    assert_ne!(at.run(&anna, &["score", "claim", &id, &wrong]).code, 0, "another link");
    at.run("", &["score", "claim", &id, &link]).failed(3, "account");
    assert_eq!(at.good(&anna, &["score", "claim", &id, &link]).trim(), id);
    assert!(at.good(&anna, &["score", "list"]).contains(&id));
    // A claim is permanent.
    assert_ne!(at.run(&ben, &["score", "claim", &id, &link]).code, 0);
    assert!(!at.good(&ben, &["score", "list"]).contains(&id));
}
