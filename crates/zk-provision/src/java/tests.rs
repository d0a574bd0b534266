use super::*;

#[test]
fn feature_release_is_read_from_old_and_new_versions() {
    for (text, expected) in [
        ("JAVA_VERSION=\"1.8.0_392\"\n", Some(8)),
        ("IMPLEMENTOR=\"x\"\nJAVA_VERSION=\"17.0.1\"\n", Some(17)),
        ("JAVA_VERSION=\"21\"\n", Some(21)),
        ("JAVA_VERSION=\"x\"\n", None),
        ("OTHER=\"1\"\n", None),
    ] {
        assert_eq!(feature_of_release_file(text), expected, "{text}");
    }
    for (text, expected) in [
        (
            "openjdk version \"17.0.19\" 2026-04-21\nOpenJDK Runtime\n",
            Some(17),
        ),
        (
            "Picked up JAVA_TOOL_OPTIONS: -Xmx1g\njava version \"1.7.0_80\"\n",
            Some(7),
        ),
        ("openjdk version \"22-ea\" 2024-03-19\n", Some(22)),
        ("No Java runtime present, requesting install.\n", None),
    ] {
        assert_eq!(feature_of_answer(text), expected, "{text}");
    }
}
