use proptest::prelude::*;

use super::*;

fn named(name: &str) -> Object {
    Object::Named(name.as_bytes().into())
}

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn sample() -> Snapshot {
    let tcp = Ends::Inet { local: address(80), remote: address(50_000) };
    Snapshot {
        begin: 1000,
        end: 1300,
        left_out: 2,
        objects: vec![
            named("/etc/hosts"),
            Object::Socket(Socket { inode: 77, family: 2, kind: 1, protocol: 6, ends: tcp }),
        ],
        tables: vec![Table {
            processes: vec![300],
            files: vec![
                Descriptor { fd: 3, cloexec: true, object: 0 },
                Descriptor { fd: 4, cloexec: false, object: 1 },
            ],
        }],
        divided: vec![300, 5],
    }
}

#[test]
fn the_bytes_are_those_of_the_specification() {
    let mut want = vec![1, 0xe8, 7, 0xac, 2, 2, 2];
    want.extend_from_slice(b"\x0b\0/etc/hosts");
    want.extend_from_slice(&[17, 2, 77, 2, 1, 6, 127, 0, 0, 1, 80, 127, 0, 0, 1, 0xd0, 0x86, 3]);
    want.extend_from_slice(&[1, 1, 0xac, 2, 2, 3, 1, 0, 2]);
    want.extend_from_slice(&[2, 0xac, 2, 5]);
    assert_eq!(sample().encode(), want);
}

#[test]
fn what_a_later_release_adds_is_passed_over() {
    let mut bytes = sample().encode();
    bytes.extend_from_slice(b"more");
    assert_eq!(Snapshot::decode(&bytes), Ok(sample()));
    // An object of a kind that is not known yet, among the others.
    let (objects, tables) = (vec![named("x")], Vec::new());
    let snapshot = Snapshot { objects, tables, divided: Vec::new(), ..sample() };
    let mut bytes = snapshot.encode();
    let at = bytes.len() - 4;
    assert_eq!(bytes[at..], [0, b'x', 0, 0]);
    bytes[at] = 9;
    assert_eq!(Snapshot::decode(&bytes).unwrap().objects, [named("")]);
}

#[test]
fn damage_is_told() {
    let bytes = sample().encode();
    for end in 0..bytes.len() {
        assert!(Snapshot::decode(&bytes[..end]).is_err(), "cut at {end}");
    }
    assert_eq!(Snapshot::decode(&[2]), Err(DescriptorsError::Version(2)));
    assert!(Snapshot::decode(&[0xff; 12]).is_err(), "a number without end");
    let object = Snapshot { objects: vec![named("x")], ..sample() };
    assert_eq!(
        Snapshot::decode(&object.encode()),
        Err(DescriptorsError::Malformed("a descriptor of no object"))
    );
}

fn ends() -> impl Strategy<Value = Ends> {
    let v4 = (any::<[u8; 4]>(), any::<u16>()).prop_map(SocketAddr::from);
    let v6 = (any::<[u8; 16]>(), any::<u16>()).prop_map(SocketAddr::from);
    prop_oneof![
        Just(Ends::Unknown),
        (v4.clone(), v4).prop_map(|(local, remote)| Ends::Inet { local, remote }),
        (v6.clone(), v6).prop_map(|(local, remote)| Ends::Inet { local, remote }),
        (any::<u64>(), any::<Vec<u8>>())
            .prop_map(|(peer, name)| Ends::Unix { peer, name: name.into() }),
    ]
}

fn object() -> impl Strategy<Value = Object> {
    prop_oneof![
        any::<Vec<u8>>().prop_map(|name| Object::Named(name.into())),
        (any::<u64>(), any::<[u16; 3]>(), ends()).prop_map(
            |(inode, [family, kind, protocol], ends)| Object::Socket(Socket {
                inode,
                family,
                kind,
                protocol,
                ends
            })
        ),
    ]
}

fn snapshot() -> impl Strategy<Value = Snapshot> {
    let file = (any::<u32>(), any::<bool>(), any::<prop::sample::Index>());
    let table = (prop::collection::vec(any::<u32>(), 0..4), prop::collection::vec(file, 0..20));
    let objects = prop::collection::vec(object(), 1..20);
    let divided = prop::collection::vec(any::<u32>(), 0..4);
    let tables = prop::collection::vec(table, 0..6);
    (any::<[u32; 2]>(), any::<u64>(), objects, tables, divided).prop_map(
        |([begin, length], left_out, objects, tables, divided)| {
            let files = |files: Vec<(u32, bool, prop::sample::Index)>| {
                let file = |(fd, cloexec, at): (u32, bool, prop::sample::Index)| Descriptor {
                    fd,
                    cloexec,
                    object: at.index(objects.len()) as u32,
                };
                files.into_iter().map(file).collect()
            };
            let tables = tables
                .into_iter()
                .map(|(processes, list)| Table { processes, files: files(list) })
                .collect();
            let (begin, length) = (u64::from(begin), u64::from(length));
            Snapshot { begin, end: begin + length, left_out, objects, tables, divided }
        },
    )
}

proptest! {
    #[test]
    fn comes_back_as_it_was(snapshot in snapshot()) {
        prop_assert_eq!(Snapshot::decode(&snapshot.encode()), Ok(snapshot));
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Snapshot::decode(&bytes);
    }

    #[test]
    fn a_changed_byte_is_no_panic(
        snapshot in snapshot(),
        at in any::<prop::sample::Index>(),
        byte: u8,
    ) {
        let mut bytes = snapshot.encode();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = Snapshot::decode(&bytes);
    }
}
