//! Frames mean what was written, and no bytes break what reads them.

use foreread_fuzz::fuzz;
use proptest::prelude::*;

use super::*;

fn text() -> impl Strategy<Value = String> {
    "[a-zü/\0]{0,12}"
}

fn object() -> impl Strategy<Value = Object> {
    let modified = proptest::option::of((-4_000_000_000_i64..4_000_000_000, 0..1_000_000_000_u32));
    (text(), any::<u64>(), proptest::option::of(text()), modified).prop_map(|(key, size, tag, modified)| {
        let modified = modified.map(|(seconds, nanos)| {
            let time = Duration::new(seconds.unsigned_abs(), nanos);
            if seconds < 0 { UNIX_EPOCH - time } else { UNIX_EPOCH + time }
        });
        Object { key: Key::new(key), version: Version { size, tag: tag.map(Into::into), modified } }
    })
}

fn node() -> impl Strategy<Value = Node> {
    prop_oneof![text().prop_map(Node::Directory), object().prop_map(Node::File)]
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        text().prop_map(|key| Call::Stat(Key::new(key))),
        (text(), text(), proptest::option::of(any::<(u64, u64)>())).prop_map(|(prefix, name, read)| Call::LookUp {
            prefix,
            name,
            read
        }),
        (any::<u32>(), text(), any::<u32>()).prop_map(|(listing, prefix, place)| Call::Entries {
            listing,
            prefix,
            place
        }),
        any::<u32>().prop_map(|listing| Call::EndEntries { listing }),
        (proptest::collection::vec(text().prop_map(Key::new), 0..5), proptest::option::of(any::<u64>()))
            .prop_map(|(keys, ahead_bytes)| Call::Expect { keys, ahead_bytes }),
        Just(Call::ExpectNone),
        Just(Call::Forget),
        Just(Call::Stats),
        proptest::option::of(any::<u64>()).prop_map(Call::Memory),
    ]
}

fn asked() -> impl Strategy<Value = Asked> {
    prop_oneof![
        (text(), text(), proptest::option::of(any::<u64>()))
            .prop_map(|(version, identity, memory_bytes)| Asked::Hello { version, identity, memory_bytes }),
        (any::<u32>(), object()).prop_map(|(file, object)| Asked::Open { file, object }),
        any::<u32>().prop_map(|file| Asked::Close { file }),
        (any::<u32>(), any::<u32>(), any::<u64>(), any::<u32>()).prop_map(|(file, at, offset, len)| Asked::Read {
            file,
            at,
            offset,
            len
        }),
        call().prop_map(Asked::Call),
        Just(Asked::Ping),
    ]
}

fn told() -> impl Strategy<Value = Told> {
    let kind = (0..KINDS.len()).prop_map(|number| KINDS[number]);
    let failed = (kind, text(), proptest::option::of(text()), any::<bool>())
        .prop_map(|(kind, text, key, retryable)| Told::Failed(Failure { kind, text, key, retryable }));
    let reply = prop_oneof![
        object().prop_map(Reply::Object),
        node().prop_map(Reply::Node),
        (proptest::collection::vec(node(), 0..5), proptest::option::of(any::<u32>()))
            .prop_map(|(nodes, next)| Reply::Entries { nodes, next }),
        Just(Reply::Gone),
        any::<u64>().prop_map(Reply::Count),
        Just(Reply::Nothing),
        (text(), any::<u32>()).prop_map(|(json, clients)| Reply::Stats { json, clients }),
    ];
    prop_oneof![
        Just(Told::Welcome),
        text().prop_map(Told::Refused),
        Just(Told::Pong),
        any::<u32>().prop_map(Told::Filled),
        failed,
        reply.prop_map(Told::Reply),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_read_is_what_was_written(asked in asked(), told in told(), operation in any::<u32>()) {
        let mut bytes = Vec::new();
        asked.encode(operation, &mut bytes);
        let (frame, len) = first_frame(&bytes).expect("a frame").expect("all of it");
        prop_assert_eq!((frame.operation, len), (operation, bytes.len()));
        prop_assert_eq!(Asked::decode(&frame), Ok(asked));

        let mut bytes = Vec::new();
        told.encode(operation, &mut bytes);
        for cut in 0..bytes.len() {
            prop_assert!(first_frame(&bytes[..cut]).expect("a beginning").is_none());
        }
        let (frame, _) = first_frame(&bytes).expect("a frame").expect("all of it");
        prop_assert_eq!(Told::decode(&frame), Ok(told));
    }
}

/// Frames one after the other, until one is not whole or cannot be.
fn frames(mut bytes: &[u8], mut each: impl FnMut(&Frame<'_>) -> bool) {
    while let Ok(Some((frame, len))) = first_frame(bytes) {
        if !each(&frame) {
            return;
        }
        bytes = &bytes[len..];
    }
}

#[test]
fn fuzz_frames_of_clients() {
    let object = Object {
        key: Key::new("a/b"),
        version: Version { size: 7, tag: Some("\"x\"".into()), modified: Some(UNIX_EPOCH) },
    };
    let mut seed = Vec::new();
    Asked::Hello { version: "0.1.0".into(), identity: "\"s3://a\"".into(), memory_bytes: Some(1) }.encode(1, &mut seed);
    Asked::Open { file: 1, object }.encode(2, &mut seed);
    Asked::Read { file: 1, at: 4096, offset: 1, len: 4096 }.encode(3, &mut seed);
    let keys = vec![Key::new("a"), Key::new("b")];
    Asked::Call(Call::Expect { keys, ahead_bytes: Some(1 << 20) }).encode(4, &mut seed);
    Asked::Call(Call::Entries { listing: 1, prefix: "a/".into(), place: 3 }).encode(5, &mut seed);
    fuzz("frames of clients", &[&seed], &["\x05\x00\x00\x00"], |bytes| {
        frames(bytes, |frame| {
            let Ok(asked) = Asked::decode(frame) else { return false };
            let mut again = Vec::new();
            asked.encode(frame.operation, &mut again);
            let (frame, _) = first_frame(&again).expect("a frame").expect("all of it");
            assert_eq!(Asked::decode(&frame), Ok(asked));
            true
        });
    });
}

#[test]
fn fuzz_frames_of_servers() {
    let mut seed = Vec::new();
    Told::Welcome.encode(1, &mut seed);
    Told::Filled(4096).encode(2, &mut seed);
    let failure = Failure { kind: ErrorKind::Changed, text: "so".into(), key: Some("a".into()), retryable: false };
    Told::Failed(failure).encode(3, &mut seed);
    Told::Reply(Reply::Entries { nodes: vec![Node::Directory("a/".into())], next: Some(1) }).encode(4, &mut seed);
    Told::Reply(Reply::Stats { json: "{}".into(), clients: 2 }).encode(5, &mut seed);
    fuzz("frames of servers", &[&seed], &["\x05\x00\x00\x00"], |bytes| {
        frames(bytes, |frame| {
            let Ok(told) = Told::decode(frame) else { return false };
            let mut again = Vec::new();
            told.encode(frame.operation, &mut again);
            let (frame, _) = first_frame(&again).expect("a frame").expect("all of it");
            assert_eq!(Told::decode(&frame), Ok(told));
            true
        });
    });
}
