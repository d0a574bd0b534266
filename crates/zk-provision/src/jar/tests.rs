use std::io::Write;

use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};

use super::*;

const NAMING: &str =
    "Manifest-Version: 1.0\r\nClass-Path: /usr/share/java/commons-cli.j\r\n ar /b.jar\r\n\r\n";

/// Builds an archive of these files as `jar` writes it.
fn archive(files: &[(&str, &str)], deflated: bool) -> Vec<u8> {
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for (name, content) in files {
        let mut crc = Crc::new();
        crc.update(content.as_bytes());
        let packed = if deflated {
            let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
            encoder.write_all(content.as_bytes()).unwrap();
            encoder.finish().unwrap()
        } else {
            content.as_bytes().to_vec()
        };
        let mut common = vec![20, 0, 0, 0, if deflated { 8 } else { 0 }, 0, 0, 0, 0, 0];
        common.extend(crc.sum().to_le_bytes());
        common.extend(u32::try_from(packed.len()).unwrap().to_le_bytes());
        common.extend(u32::try_from(content.len()).unwrap().to_le_bytes());
        common.extend(u16::try_from(name.len()).unwrap().to_le_bytes());
        // An extra field, as in the first entry that `jar` writes.
        common.extend([4, 0]);
        let offset = u32::try_from(archive.len()).unwrap().to_le_bytes();
        archive.extend(b"PK\x03\x04".iter().chain(&common));
        archive.extend(name.bytes().chain([0xfe, 0xca, 0, 0]).chain(packed));
        directory.extend(b"PK\x01\x02\x14\x00".iter().chain(&common));
        directory.extend([0; 10].iter().chain(&offset));
        directory.extend(name.bytes().chain([0xfe, 0xca, 0, 0]));
    }
    let count = u16::try_from(files.len()).unwrap().to_le_bytes();
    let start = u32::try_from(archive.len()).unwrap().to_le_bytes();
    let length = u32::try_from(directory.len()).unwrap().to_le_bytes();
    archive.extend(directory);
    archive.extend(b"PK\x05\x06\0\0\0\0".iter().chain(&count).chain(&count));
    archive.extend(length.iter().chain(&start).chain(&[0, 0]));
    archive
}

#[test]
fn manifest_with_a_class_path_is_hidden_and_nothing_moves() {
    for deflated in [false, true] {
        for name in [MANIFEST, "meta-inf/manifest.mf"] {
            let files = [("a/B.class", "code"), (name, NAMING), ("META-INF/x", "y")];
            let before = archive(&files, deflated);
            let mut jar = before.clone();
            assert!(hide(&mut jar), "{name} {deflated}");
            let changed = before.iter().zip(&jar).filter(|(was, is)| was != is);
            assert_eq!(changed.count(), 2, "one letter, in both places of the name");
            assert!(manifest(&jar).is_none(), "{name} {deflated}");
            assert!(!hide(&mut jar), "there is nothing left to hide");
        }
    }
}

#[test]
fn what_names_no_jars_stays_as_it_is() {
    let harmless = "Manifest-Version: 1.0\nMulti-Release: true\nX: /a\n Class-Path: /b.jar\n";
    let named = archive(&[("META-INF/MANIFEST.MF.txt", NAMING)], true);
    let cut = &archive(&[(MANIFEST, NAMING)], true);
    for before in [
        archive(&[(MANIFEST, harmless)], true),
        named,
        archive(&[], false),
        b"no archive".to_vec(),
        Vec::new(),
        cut[40..].to_vec(),
    ] {
        let mut jar = before.clone();
        assert!(!hide(&mut jar));
        assert_eq!(jar, before);
    }
}

#[test]
fn attribute_is_found_however_it_is_written() {
    for (text, expected) in [
        ("Class-Path: a.jar", true),
        ("A: b\r\nclass-path: a.jar\r\n", true),
        ("X-Class-Path: a.jar\n", false),
        ("A: b\n Class-Path: a.jar\n", false),
        ("Class-Pa", false),
        ("", false),
    ] {
        assert_eq!(has_class_path(text), expected, "{text:?}");
    }
}
