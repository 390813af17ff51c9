use proptest::prelude::*;

use super::*;

fn json(text: &str) -> Fingerprint {
    Fingerprint::of_json_text(text).unwrap()
}

/// Kind of fault: JSON member order (H-24). In canonical mode order and white space do not count,
/// array order and the text of numbers do; in raw mode every byte counts.
#[test]
fn canonical_json_ignores_order_and_space_and_nothing_else() {
    let first = json(r#"{"a":1,"b":{"x":1,"y":2}}"#);
    assert_eq!(first, json(r#"{"b":{"y":2,"x":1},"a":1}"#));
    assert_eq!(first, json(" {\n\t\"a\" : 1 , \"b\" : { \"x\":1, \"y\":2 } }\r\n"));
    assert_eq!(json(r#"["\u00e9"]"#), json("[\"é\"]"));
    assert_eq!(json(r#"{"\u0061":1}"#), json(r#"{"a":1}"#));
    assert_eq!(json(r#""\/""#), json(r#""/""#));
    for (one, other) in [
        ("[1,2]", "[2,1]"),
        ("1", "1.0"),
        ("1", "1e0"),
        ("9007199254740993", "9007199254740992"),
        ("0.1", "0.10"),
        (r#"{"a":null}"#, "{}"),
        ("[[]]", "[[],[]]"),
        (r#""1""#, "1"),
        (r#"{"a":"b,c"}"#, r#"{"a":"b","c":""}"#),
    ] {
        assert_ne!(json(one), json(other), "{one} {other}");
    }
    let raw = |text: &str| Fingerprint::of_bytes(text);
    assert_ne!(raw(r#"{"a":1,"b":2}"#), raw(r#"{"b":2,"a":1}"#));
    assert_ne!(raw("1"), json("1"));
}

#[test]
fn members_are_ordered_by_utf16_code_unit() {
    // U+10000 is D800 DC00 in UTF-16: before U+FFFF there, after it in UTF-8
    let canonical =
        canonical_json::canonical("{\"\u{ffff}\":1,\"\u{10000}\":2,\"a\":3}".as_bytes());
    assert_eq!(canonical.unwrap(), "{\"a\":3,\"\u{10000}\":2,\"\u{ffff}\":1}");
}

#[test]
fn json_without_one_meaning_is_refused() {
    let error = |text: &[u8]| Fingerprint::of_json_text(text).unwrap_err();
    assert!(matches!(
        error(br#"{"a":1,"b":2,"\u0061":1}"#),
        FingerprintError::DuplicateMember { at: 13 }
    ));
    assert!(matches!(error(b"{\n  \"a\": 01}"), FingerprintError::NotJson { line: 2, .. }));
    assert!(matches!(error(b""), FingerprintError::NotJson { .. }));
    assert!(matches!(error(b"1 2"), FingerprintError::NotJson { .. }));
    assert!(matches!(error(b"[\"\xff\"]"), FingerprintError::NotJson { line: 1, column: 3 }));
    assert!(matches!(error(br#"["\ud800"]"#), FingerprintError::NotJson { .. }));
    let nested = |depth| ["[".repeat(depth), "]".repeat(depth)].concat();
    assert!(Fingerprint::of_json_text(nested(127)).is_ok());
    assert!(matches!(error(nested(128).as_bytes()), FingerprintError::TooDeep { at: 127, .. }));
    assert!(matches!(error("[".repeat(100_000).as_bytes()), FingerprintError::TooDeep { .. }));
}

#[test]
fn structs_with_other_field_order_are_the_same_request() {
    #[derive(Serialize)]
    struct Before<'a> {
        amount: u64,
        currency: &'a str,
    }
    #[derive(Serialize)]
    struct After<'a> {
        currency: &'a str,
        amount: u64,
    }
    let before = Fingerprint::of_json(&Before { amount: 5, currency: "eur" }).unwrap();
    let after = Fingerprint::of_json(&After { currency: "eur", amount: 5 }).unwrap();
    assert_eq!(before, after);
}

/// Kind of fault: fingerprint parts missing or unstable (H-25): each part counts, and no part can
/// pretend to be another one.
#[test]
fn parts_never_run_into_each_other() {
    let parts = |list: &[(&str, &str)]| {
        list.iter().fold(Fingerprint::builder(), |b, (name, value)| b.part(name, value)).finish()
    };
    let list = [
        parts(&[("path", "/kb"), ("query", "dry=1")]),
        parts(&[("path", "/kb"), ("query", "")]),
        parts(&[("path", "/kb")]),
        parts(&[("path", "/kbquery"), ("query", "dry=1")]),
        parts(&[("pat", "h/kb"), ("query", "dry=1")]),
        parts(&[("query", "dry=1"), ("path", "/kb")]),
    ];
    let distinct: std::collections::HashSet<_> = list.iter().collect();
    assert_eq!(distinct.len(), list.len());
}

/// Kind of fault: a part that changes from try to try (H-26): an upload has another boundary each
/// time. Raw bytes then differ, which refuses an honest retry and never runs it twice; the parts that
/// count are named instead.
#[test]
fn uploads_are_the_same_by_their_named_parts() {
    let upload = |boundary: &str, name: &str| {
        format!("--{boundary}\r\nname={name}\r\n\r\nfile\r\n--{boundary}--")
    };
    let raw = |boundary: &str| Fingerprint::of_bytes(upload(boundary, "a.txt"));
    assert_ne!(raw("one"), raw("two"));
    let named =
        |name: &str| Fingerprint::builder().part("name", name).part("sha256", [7; 32]).finish();
    assert_eq!(named("a.txt"), named("a.txt"));
    assert_ne!(named("a.txt"), named("b.txt"));
}

#[test]
fn keyed_fingerprints_differ_by_key_and_do_not_show_it() {
    let key = FingerprintKey::new("secret");
    let keyed = |key: &FingerprintKey| Fingerprint::keyed_builder(key).part("body", "x").finish();
    assert_eq!(keyed(&key), keyed(&key));
    assert_ne!(keyed(&key), keyed(&FingerprintKey::new("another")));
    assert_ne!(keyed(&key), Fingerprint::of_bytes("x"));
    assert_eq!(keyed(&key).version(), Fingerprint::HMAC_SHA256);
    assert_eq!(format!("{key:?}"), "FingerprintKey(…)");
}

/// Kind of fault: a new release changes what is hashed (H-27). These values are pinned for ever; a
/// change of what is hashed needs a new version byte.
#[test]
fn fingerprints_of_this_release_never_change() {
    let hex = |f: Fingerprint| f.to_stored_bytes().map(|b| format!("{b:02x}")).concat();
    assert_eq!(
        hex(Fingerprint::of_bytes("hello")),
        "01190d90fcc3bf105a2a0c03099366874c86973cfe052ba4b640395dbcd1cc826d"
    );
    assert_eq!(
        hex(json(r#"{"b":[1.50,"é"],"a":null}"#)),
        "0128e4522005769cd01797f996ee99ef2081db3bfc27241041c9047e6df7d0d049"
    );
    let keyed = Fingerprint::keyed_builder(&FingerprintKey::new("k")).part("body", "hello");
    assert_eq!(
        hex(keyed.finish()),
        "02e8a78d237f2e5c1fc5fb03a6fc68f675ba38463f9d06a89a0dfd45e2ea1b9987"
    );
}

#[test]
fn stored_bytes_keep_the_version() {
    let fingerprint = Fingerprint::of_bytes("x");
    let stored = fingerprint.to_stored_bytes();
    assert_eq!(stored[0], Fingerprint::SHA256);
    assert_eq!(Fingerprint::from_stored_bytes(stored), fingerprint);
    let mut future = stored;
    future[0] = 9;
    assert_ne!(Fingerprint::from_stored_bytes(future), fingerprint);
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        ".{0,8}".prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            prop::collection::hash_map(".{0,4}", inner, 0..4)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn canonical_form_keeps_the_meaning_and_is_stable(value in any_json()) {
        let pretty = serde_json::to_string_pretty(&value).unwrap();
        let canonical = canonical_json::canonical(pretty.as_bytes()).unwrap();
        let meaning = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        prop_assert_eq!(meaning(&canonical), meaning(&pretty));
        prop_assert_eq!(canonical_json::canonical(canonical.as_bytes()).unwrap(), canonical);
    }

    #[test]
    fn any_bytes_give_a_fingerprint_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Fingerprint::of_json_text(&bytes);
    }

    #[test]
    fn broken_json_gives_an_error_not_a_panic(value in any_json(), cut in any::<prop::sample::Index>()) {
        let text = value.to_string();
        let at = text.floor_char_boundary(cut.index(text.len()));
        let _ = Fingerprint::of_json_text(&text[..at]);
    }
}
