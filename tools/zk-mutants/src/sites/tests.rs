use super::*;

/// Returns the changes in a text, as `original -> changed`.
fn changes(text: &str) -> Vec<String> {
    let sites = read(text).unwrap().sites;
    let shown = sites.iter().map(|site| match site.form {
        Form::Expression => format!("{} -> {}", site.original, site.changed),
        Form::Statement => format!("{} ->", site.original),
        Form::Body => format!("{}: {}", site.original, site.changed),
    });
    shown.collect()
}

/// Returns the changes in the body of a function.
fn in_body(body: &str) -> Vec<String> {
    changes(&format!("fn f() -> u32 {{ {body} }}"))
}

#[test]
fn each_kind_of_code_has_its_changes() {
    let none: &[&str] = &[];
    for (body, expected) in [
        ("a == b", &["a == b -> a != b"][..]),
        ("a != b", &["a != b -> a == b"]),
        ("a < b", &["a < b -> a <= b"]),
        ("a >= b", &["a >= b -> a > b"]),
        ("a && b", &["a && b -> a || b"]),
        ("a || b", &["a || b -> a && b"]),
        ("a + b", &["a + b -> a - b"]),
        ("a -= b;", &["a -= b -> a += b"]),
        ("a * b", none),
        ("!a", &["!a -> a"]),
        ("7", &["7 -> 8"]),
        ("0x0f_u8", &["0x0f_u8 -> 16u8"]),
        ("18446744073709551615", none),
        ("1.5", none),
        ("true", &["true -> false"]),
        ("if a { b }", &["a -> !(a)"]),
        ("while a < b {}", &["a < b -> !(a < b)", "a < b -> a <= b"]),
        ("if a == b { c }", &["a == b -> a != b"]),
        ("if !a { b }", &["!a -> a"]),
        (
            "match a { b if c => d, _ => e }",
            &["c -> true", "c -> false"],
        ),
        ("a(b); c", &["a(b); ->"]),
        ("a.b(); c", &["a.b(); ->"]),
        ("a.b().await?; c", &["a.b().await?; ->"]),
        ("a.b()", none),
        ("let a = b();", none),
        ("return a();", none),
    ] {
        assert_eq!(in_body(body), expected, "{body}");
    }
}

#[test]
fn what_a_condition_binds_is_not_changed() {
    for (body, expected) in [
        ("if let Some(1) = a { b }", &[][..]),
        ("if let Some(a) = b && a > c { d }", &["a > c -> a >= c"]),
        ("while let Some(a) = b && c {}", &[]),
        ("matches!(a, 1 if b == c)", &[]),
        ("println!(\"{}\", a + 1); b", &[]),
    ] {
        assert_eq!(in_body(body), expected, "{body}");
    }
}

#[test]
fn bodies_are_replaced_by_what_they_may_return() {
    for (text, expected) in [
        ("fn f() { a }", &["fn f(): return;"][..]),
        ("fn f() {}", &[]),
        (
            "fn f(&self) -> bool { a }",
            &[
                "fn f(&self) -> bool: return true;",
                "fn f(&self) -> bool: return false;",
            ],
        ),
        (
            "fn f() -> Option<u8> { a }",
            &["fn f() -> Option<u8>: return None;"],
        ),
        ("fn f() -> Option<u8> { None }", &[]),
        ("fn f() -> u8 { a }", &[]),
        ("impl A { async fn f() { a } }", &["async fn f(): return;"]),
        ("trait A { fn f() { a } }", &["fn f(): return;"]),
    ] {
        assert_eq!(changes(text), expected, "{text}");
    }
}

#[test]
fn constants_types_patterns_and_tests_are_left_alone() {
    for text in [
        "const A: u8 = 1 + 1;",
        "static A: u8 = 1;",
        "const fn f() -> bool { a == b }",
        "impl A { const B: u8 = 1; const fn f() -> u8 { 1 } }",
        "enum A { B = 1 }",
        "struct A { b: [u8; 2] }",
        "fn f() -> u8 { [a; 2] }",
        "fn f() -> u8 { g::<2>() }",
        "fn f() -> u8 { match a { 1 | 2..=3 => b, _ => c } }",
        "fn f(a: [u8; 3]) -> u8 { a.0 }",
        "fn f() -> u8 { const { 1 + 1 } }",
        "fn f() -> u8 { const A: u8 = 1; A }",
        "#[cfg(test)] mod tests { fn f() { g(1); } }",
        "#[cfg(all(test, feature = \"a\"))] fn f() { g(1); }",
        "#[cfg(not(feature = \"a\"))] fn f() { g(1); }",
        "#[test] fn f() { g(1); }",
        "#[tokio::test(flavor = \"multi_thread\")] async fn f() { g(1); }",
        "fn f() -> u8 { #[cfg(not(unix))] { g(1); } a }",
        "impl fmt::Debug for A { fn f() { g(1); } }",
        "macro_rules! a { () => { 1 + 1 } }",
        "#[doc = concat!(\"a\", 1)] struct A;",
    ] {
        assert_eq!(changes(text), [""; 0], "{text}");
    }
}

#[test]
fn code_of_a_feature_is_changed() {
    for feature in ["tls", "test-util"] {
        let text = format!("#[cfg(feature = \"{feature}\")] fn f() -> u8 {{ 1 }}");
        assert_eq!(changes(&text), ["1 -> 2"], "{feature}");
    }
}

#[test]
fn places_are_bytes_and_lines_of_the_file() {
    let text = "// ä\nfn f() -> u8 {\n    // ö\n    a + b\n}\n";
    let site = &read(text).unwrap().sites[0];
    assert_eq!(&text[site.range.clone()], "a + b");
    assert_eq!((site.line, site.original.as_str()), (4, "a + b"));
}

#[test]
fn modules_in_files_are_named_and_those_of_tests_are_not() {
    let source = read(
        "mod a; mod b { pub mod c; }\n#[cfg(test)] mod tests;\n#[cfg(feature = \"x\")] mod d;",
    );
    let paths: Vec<String> = source
        .unwrap()
        .modules
        .iter()
        .map(|module| module.path.join("::"))
        .collect();
    assert_eq!(paths, ["a", "b::c", "d"]);
}

#[test]
fn comments_empty_lines_and_tests_are_no_code() {
    let text = "//! Doc.\n\nfn f() {\n    // why\n    g()\n}\n\n#[cfg(test)]\nmod tests {\n    use a;\n}\n";
    assert_eq!(read(text).unwrap().code_lines, 3);
}
