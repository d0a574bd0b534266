//! What comes back, and what is said of what does not.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Says where an error is, as line, column and offset.
fn place(error: &DecodeError) -> Option<(usize, usize, usize)> {
    let position = error.position()?;
    Some((position.line, position.column, position.offset))
}

#[test]
fn text_that_is_not_utf_8_is_refused_with_its_place() {
    let error = Text.decode(b"ab\nc\xc3\xa4\xff!").unwrap_err();
    assert_eq!(error.kind(), DecodeErrorKind::NotUtf8);
    assert_eq!(place(&error), Some((2, 3, 6)));
    assert_eq!(
        error.of_node(&"/app/motto".parse().unwrap()).to_string(),
        "the data of /app/motto is not valid text at line 2, column 3: \
         byte 0xff at offset 6 is not UTF-8; write the text in UTF-8"
    );
    assert_eq!(Text.decode(b"").unwrap(), "");
}

#[test]
fn foreign_text_in_an_error_is_one_short_line() {
    let hostile = format!("a\nINFO granted\u{1b}[2J{}", "x".repeat(900_000));
    for error in [
        DecodeError::new("INI", DecodeErrorKind::Syntax, &*hostile),
        DecodeError::new("INI", DecodeErrorKind::Shape, format!("key {hostile}")),
    ] {
        for text in [
            error.to_string(),
            format!("{error:?}"),
            error.message_with_value().to_owned(),
        ] {
            assert!(!text.contains(char::is_control), "{text:?}");
            assert!(text.len() < 1000, "{} bytes", text.len());
        }
        assert!(error.message().contains("a\\nINFO granted\\u{1b}[2J"));
    }
}

#[test]
fn position_counts_lines_and_characters_from_one() {
    let data = "é\nüx\n".as_bytes();
    for (offset, expected) in [
        (0, (1, 1, 0)),
        (2, (1, 2, 2)),
        (3, (2, 1, 3)),
        (5, (2, 2, 5)),
        (6, (2, 3, 6)),
        (7, (3, 1, 7)),
        (99, (3, 1, 7)),
    ] {
        let Position {
            line,
            column,
            offset: at,
        } = Position::of_offset(data, offset);
        assert_eq!((line, column, at), expected, "offset {offset}");
    }
}

proptest! {
    #[test]
    fn bytes_and_text_come_back(bytes: Vec<u8>, words: String) {
        prop_assert_eq!(Raw.decode(&Raw.encode(&bytes).unwrap()).unwrap(), bytes);
        prop_assert_eq!(Text.decode(&Text.encode(&words).unwrap()).unwrap(), words);
    }
}

#[cfg(all(feature = "json", feature = "toml"))]
mod formats {
    use serde::{Deserialize, Serialize};

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Pool {
        size: u16,
        #[serde(default)]
        hosts: Vec<String>,
        #[serde(default)]
        labels: BTreeMap<String, i32>,
    }

    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    struct AllOptional {
        #[serde(skip_serializing_if = "Option::is_none")]
        size: Option<u16>,
    }

    fn decode<C: Codec<Pool>>(codec: &C, data: impl AsRef<[u8]>) -> DecodeError {
        codec.decode(data.as_ref()).unwrap_err()
    }

    #[test]
    fn bad_json_is_refused_with_its_place() {
        use DecodeErrorKind::{Empty, NotUtf8, Shape, Syntax};
        for (data, kind, expected, message) in [
            (b"".as_slice(), Empty, None, "the node has no data"),
            (
                b"{\n \"size\": 1,\n}",
                Syntax,
                Some((3, 1, 14)),
                "trailing comma",
            ),
            (
                b"{\"size\": 1} x",
                Syntax,
                Some((1, 13, 12)),
                "trailing characters",
            ),
            (
                b"{\"size\": 1",
                Syntax,
                Some((1, 11, 10)),
                "EOF while parsing an object",
            ),
            (
                "{\"é\": 1, \"size\": \"much\"}".as_bytes(),
                Shape,
                Some((1, 23, 23)),
                "invalid type: string, expected u16",
            ),
            (b"{}", Shape, Some((1, 2, 1)), "missing field `size`"),
            (
                b"{\"size\": \"\xff\"}",
                NotUtf8,
                Some((1, 11, 10)),
                "byte 0xff at offset 10",
            ),
        ] {
            let error = decode(&Json, data);
            assert_eq!((error.kind(), place(&error)), (kind, expected), "{error}");
            assert!(error.message().starts_with(message), "{error}");
            assert_eq!(error.format(), "JSON");
        }
    }

    #[test]
    fn bad_toml_is_refused_with_its_place() {
        use DecodeErrorKind::{Empty, NotUtf8, Shape, Syntax};
        for (data, kind, expected, message) in [
            (b"".as_slice(), Empty, None, "the node has no data"),
            (
                b"size = 1\nhosts = [\"a\"\n",
                Syntax,
                Some((2, 13, 21)),
                "unclosed array",
            ),
            (
                b"size = 1\n\nsize = 2\n",
                Syntax,
                Some((3, 1, 10)),
                "duplicate key",
            ),
            (
                b"size = \"much\"\n",
                Shape,
                Some((1, 8, 7)),
                "invalid type: string, expected u16 in `size`",
            ),
            (
                b"hosts = []\n",
                Shape,
                Some((1, 1, 0)),
                "missing field `size`",
            ),
            (
                b"size = 1\n# \xff\n",
                NotUtf8,
                Some((2, 3, 11)),
                "byte 0xff at offset 11",
            ),
        ] {
            let error = decode(&Toml, data);
            assert_eq!((error.kind(), place(&error)), (kind, expected), "{error}");
            assert!(error.message().starts_with(message), "{error}");
            assert!(!error.to_string().contains('\n'), "{error}");
            assert_eq!(error.format(), "TOML");
        }
    }

    #[test]
    fn empty_table_comes_back_and_an_empty_node_is_none() {
        let value = AllOptional::default();
        let data = Toml.encode(&value).unwrap();
        assert_eq!(
            Codec::<AllOptional>::decode(&Toml, &data).unwrap(),
            AllOptional::default()
        );
        let error = Codec::<AllOptional>::decode(&Toml, b"").unwrap_err();
        assert_eq!(error.kind(), DecodeErrorKind::Empty);
    }

    #[test]
    fn value_that_a_format_has_no_words_for_is_refused() {
        let keys = BTreeMap::from([(vec![1_u8], 2)]);
        let error = Json.encode(&keys).unwrap_err();
        assert_eq!(error.format(), "JSON");
        let error = Toml.encode(&7).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the value cannot be written as TOML: unsupported i32 type"
        );
    }

    fn pools() -> impl Strategy<Value = Pool> {
        (
            any::<u16>(),
            prop::collection::vec(any::<String>(), 0..8),
            prop::collection::btree_map(any::<String>(), any::<i32>(), 0..8),
        )
            .prop_map(|(size, hosts, labels)| Pool {
                size,
                hosts,
                labels,
            })
    }

    proptest! {
        #[test]
        fn values_come_back(pool in pools()) {
            let json = Json.encode(&pool).unwrap();
            prop_assert_eq!(&Codec::<Pool>::decode(&Json, &json).unwrap(), &pool);
            let toml = Toml.encode(&pool).unwrap();
            prop_assert_eq!(&Codec::<Pool>::decode(&Toml, &toml).unwrap(), &pool);
        }

        #[test]
        fn garbage_is_refused_and_its_place_lies_in_it(
            mut data in pools().prop_map(|pool| Toml.encode(&pool).unwrap()),
            at: prop::sample::Index,
            byte: u8,
        ) {
            let at = at.index(data.len());
            data[at] = byte;
            let is_inside = |error: DecodeError| error.position().is_none_or(|place| place.offset <= data.len());
            prop_assert!(Codec::<Pool>::decode(&Toml, &data).map_or_else(is_inside, |_| true));
            prop_assert!(Codec::<Pool>::decode(&Json, &data).map_or_else(is_inside, |_| true));
        }
    }
}

#[cfg(feature = "gzip")]
mod compressed {
    use super::*;

    #[test]
    fn bomb_is_refused_at_the_bound() {
        let zeros = vec![0; 17 << 20];
        let bomb = Gzip::new(Raw)
            .with_limit(zeros.len())
            .encode(&zeros)
            .unwrap();
        assert!(bomb.len() < 1 << 20, "{} bytes", bomb.len());
        let error = Gzip::new(Raw).decode(&bomb).unwrap_err();
        assert_eq!(error.kind(), DecodeErrorKind::TooLarge);
        assert_eq!(
            error.to_string(),
            "the data is not valid gzip: it decompresses to more than the limit of 16777216 bytes"
        );
        assert_eq!(
            Gzip::new(Raw).encode(&zeros).unwrap_err().to_string(),
            "the value cannot be written as gzip: it has 17825792 bytes, more than the limit of 16777216"
        );
    }

    #[test]
    fn exactly_the_bound_is_taken() {
        let codec = Gzip::new(Raw).with_limit(3);
        assert_eq!(
            codec.decode(&codec.encode(&vec![1; 3]).unwrap()).unwrap(),
            [1; 3]
        );
        assert!(codec.encode(&vec![1; 4]).is_err());
        let larger = Gzip::new(Raw).encode(&vec![1; 4]).unwrap();
        assert_eq!(
            codec.decode(&larger).unwrap_err().kind(),
            DecodeErrorKind::TooLarge
        );
    }

    #[test]
    fn what_is_not_whole_is_refused() {
        let codec = Gzip::new(Text);
        let whole = codec.encode(&"the whole truth".to_owned()).unwrap();
        for (data, kind) in [
            (&b""[..], DecodeErrorKind::Empty),
            (b"plain", DecodeErrorKind::Syntax),
            (&whole[..whole.len() - 1], DecodeErrorKind::Damaged),
            (&[&whole[..], b"more"].concat(), DecodeErrorKind::Damaged),
        ] {
            assert_eq!(codec.decode(data).unwrap_err().kind(), kind, "{data:?}");
        }
        let not_text = Gzip::new(Raw).encode(&vec![0xff]).unwrap();
        let error = codec.decode(&not_text).unwrap_err();
        assert_eq!(
            (error.format(), error.kind()),
            ("text", DecodeErrorKind::NotUtf8)
        );
    }

    proptest! {
        #[test]
        fn compressed_comes_back(bytes: Vec<u8>) {
            let codec = Gzip::new(Raw);
            prop_assert_eq!(codec.decode(&codec.encode(&bytes).unwrap()).unwrap(), bytes);
        }

        #[test]
        fn damage_is_refused_or_harmless(words: String, at: prop::sample::Index, byte: u8) {
            let codec = Gzip::new(Text);
            let mut data = codec.encode(&words).unwrap();
            let at = at.index(data.len());
            data[at] = byte;
            // The header has bytes that say nothing of the content; the content is under a checksum.
            prop_assert!(codec.decode(&data).is_ok_and(|read| read == words) || codec.decode(&data).is_err());
        }
    }
}

/// A configuration that somebody writes a secret, or a line of a log, into the wrong place of.
#[cfg(all(feature = "json", feature = "toml"))]
#[test]
fn a_value_of_the_wrong_type_is_not_in_its_error() {
    #[derive(Debug, serde::Serialize, serde::Deserialize)]
    struct Settings {
        size: u16,
        mode: Mode,
    }
    #[derive(Debug, serde::Serialize, serde::Deserialize)]
    enum Mode {
        Fast,
    }
    let fast = r#""Fast""#;
    for (size, mode) in [
        (r#""hunter2""#, fast),
        ("12345678", fast),
        ("-12345678", fast),
        ("1234567.8", fast),
        ("7", r#""hunter2""#),
        ("7", r#""hunter2, expected \n `x`""#),
    ] {
        let json = format!("{{\"size\": {size}, \"mode\": {mode}}}");
        let toml = format!("size = {size}\nmode = {mode}\n");
        let json: Result<Settings, _> = Json.decode(json.as_bytes());
        let toml: Result<Settings, _> = Toml.decode(toml.as_bytes());
        for error in [json.unwrap_err(), toml.unwrap_err()] {
            let text = format!("{error} {error:?}");
            for value in ["hunter2", "1234567"] {
                assert!(!text.contains(value), "{text}");
            }
            let asked = error.message_with_value();
            assert!(
                asked.contains("hunter2") || asked.contains("1234567"),
                "{asked}"
            );
            assert!(!asked.contains('\n'), "{asked}");
        }
    }
}
