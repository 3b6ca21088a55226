//! Tests of reading the settings.

use super::*;

fn layer(pairs: &[(&str, &str)]) -> Layer {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn the_first_layer_wins() {
    let file = file(
        "rate_limit = 10\nlisten = \"0.0.0.0:1\"\nallow_private_endpoints = [\"127.0.0.0/8\", \"::1/128\"]",
    )
    .unwrap();
    let environment = layer(&[("CHORUS_RATE_LIMIT", "20")]);
    let settings = Settings::load(&[environment, file]).unwrap();
    assert_eq!(settings.rate_limit, Some(20));
    assert_eq!(settings.listen, "0.0.0.0:1");
    assert_eq!(settings.outbound.allow.len(), 2);
    assert_eq!(settings.retention, None);
}

#[test]
fn only_our_variables_have_to_be_text() {
    use std::os::unix::ffi::OsStringExt as _;
    let odd = || OsString::from_vec(vec![0xff]);
    let variables = [("FOO".into(), odd()), (odd(), "x".into()), ("CHORUS_LOG".into(), "warn".into())];
    assert_eq!(ours(variables.into_iter()).unwrap(), layer(&[("CHORUS_LOG", "warn")]));
    let faults = ours([("CHORUS_LOG".into(), odd())].into_iter()).unwrap_err();
    assert_eq!(faults.to_string(), "CHORUS_LOG: must be a text in UTF-8");
}

#[test]
fn what_looks_like_a_setting_and_is_none() {
    let layer = layer(&[("CHORUS_SIGN_UP", "closed"), ("CHORUS_SIGNUP", "open"), ("CHORUS_URL", "x")]);
    assert_eq!(unknown(&layer, &HashSet::from(["CHORUS_URL".to_owned()])), ["CHORUS_SIGN_UP"]);
}

#[test]
fn no_secret_is_shown() {
    let key = "0123456789abcdef".repeat(4);
    let secrets = layer(&[
        ("CHORUS_MASTER_KEY", &key),
        ("CHORUS_MASTER_KEY_PREVIOUS", &key),
        ("CHORUS_DATABASE_URL", "postgres://u:pass@h/db"),
    ]);
    let settings = Settings::load(&[secrets]).unwrap();
    let shown = format!("{settings:?} {:?}", settings.former_key);
    assert!(!shown.contains("pass") && !shown.contains("35, 69") && shown.ends_with("Given(…)"), "{shown}");
}

#[test]
fn every_fault_at_once() {
    let wrong = layer(&[
        ("CHORUS_RATE_LIMIT", "many"),
        ("CHORUS_SIGNUP", "maybe"),
        ("CHORUS_OPERATOR_KEY", "co_short"),
    ]);
    assert_eq!(
        Settings::load(&[wrong]).unwrap_err().to_string(),
        "CHORUS_RATE_LIMIT: must be a number of requests a minute, or off; \
         CHORUS_OPERATOR_KEY: must be co_ and at least 16 characters; CHORUS_SIGNUP: must be open, invite or closed"
    );
}

#[test]
fn off_covers_both_limits() {
    let settings = Settings::load(&[layer(&[("CHORUS_RATE_LIMIT", "off")])]).unwrap();
    assert_eq!((settings.rate_limit, settings.rate_limit_anonymous), (None, None));
}

#[test]
fn quotas_are_numbers_or_off() {
    let with = |text| Settings::load(&[layer(&[("CHORUS_QUOTA_MEMBERS", text)])]);
    assert_eq!(with("5").unwrap().quotas, Quotas { members: 5, ..Quotas::default() });
    assert_eq!(with("off").unwrap().quotas.members, OFF);
    assert_eq!(with("0").unwrap_err().to_string(), "CHORUS_QUOTA_MEMBERS: must be a number from 1, or off");
}

#[test]
fn which_proxies_are_trusted() {
    let with = |text| Settings::load(&[layer(&[("CHORUS_TRUSTED_PROXIES", text)])]);
    assert!(with("127.0.0.1, 10.0.0.0/8, ::1").is_ok());
    assert_eq!(
        with("proxy.example").unwrap_err().to_string(),
        "CHORUS_TRUSTED_PROXIES: must be addresses or networks such as 127.0.0.1,10.0.0.0/8"
    );
}

#[test]
fn other_names_of_the_hub() {
    let load = |hosts| Settings::load(&[layer(&[("CHORUS_ALLOWED_HOSTS", hosts)])]);
    assert_eq!(load("hub, Hub.Internal").unwrap().allowed_hosts, ["hub", "hub.internal"]);
    assert_eq!(load(" ").unwrap().allowed_hosts, [] as [&str; 0]);
    for wrong in ["hub:8787", "http://hub", "a b"] {
        assert!(load(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn the_key_before() {
    let with = |text: &str| Settings::load(&[layer(&[("CHORUS_MASTER_KEY_PREVIOUS", text)])]);
    assert_eq!(Settings::load(&[]).unwrap().former_key, FormerKey::None);
    assert_eq!(with("lost").unwrap().former_key, FormerKey::Lost);
    assert_eq!(with(&"7f".repeat(32)).unwrap().former_key, FormerKey::Given([0x7f; 32]));
    assert_eq!(
        with("7f").unwrap_err().to_string(),
        "CHORUS_MASTER_KEY_PREVIOUS: must be 64 hex digits, or lost"
    );
}

#[test]
fn where_mail_goes() {
    let mail = |text| Settings::load(&[layer(&[("CHORUS_MAIL", text)])]).map(|settings| settings.mail);
    assert_eq!(mail("log"), Ok(Mail::Log));
    assert_eq!(mail("dir:mails"), Ok(Mail::Folder("mails".into())));
    assert!(matches!(mail("smtps://ann:secret@mail.example:465"), Ok(Mail::Server(_))));
    assert!(
        mail("pigeon").unwrap_err().to_string().starts_with("CHORUS_MAIL: must be log, dir:PATH, smtp://")
    );
    assert_eq!(Settings::load(&[]).unwrap().mail, Mail::Log);
}

#[test]
fn a_file_with_an_unknown_name_is_refused() {
    assert!(
        file("rate_limits = 1").unwrap_err().to_string().starts_with("rate_limits: there is no such setting")
    );
    assert!(file("rate_limit = 1.5").is_err());
    assert!(file("= 1").unwrap_err().to_string().starts_with("file: "));
}
