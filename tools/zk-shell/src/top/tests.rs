use super::*;

/// The images of the README, with their views and sizes.
const IMAGES: [(&str, &str, View, (u16, u16)); 2] = [
    (
        "top-servers.svg",
        include_str!("../../docs/top-servers.svg"),
        View::Servers,
        (100, 22),
    ),
    (
        "top-recipes.svg",
        include_str!("../../docs/top-recipes.svg"),
        View::Recipes,
        (100, 12),
    ),
];

#[tokio::test]
async fn images_of_the_readme_are_those_of_the_recording() {
    let readme = include_str!("../../README.md");
    for (name, image_there, view, (width, height)) in IMAGES {
        let file = Path::new("src/top/fixtures/killed-leader.jsonl");
        let (mut player, _) = open_recording(file).await.expect("a recording");
        let mut model = Model::default();
        let played = player.finish(|sample| model.apply(sample));
        played.await.expect("samples");
        let view_name = view.name();
        let command = format!(
            "zk top --replay src/top/fixtures/killed-leader.jsonl --show {view_name} --svg {width}x{height} > docs/{name}"
        );
        let made = image(view, &model, (width, height));
        assert!(made == image_there, "make it again: {command}");
        assert!(readme.contains(&format!("(docs/{name})")), "{name}");
    }
}

#[test]
fn sizes_of_images_are_width_and_height() {
    assert_eq!(parse_size("80x24"), Ok((80, 24)));
    for bad in [
        "", "80", "80x", "x24", "80x24x1", "19x24", "80x4", "401x24", "80x201", "-80x24",
    ] {
        assert!(parse_size(bad).is_err(), "{bad}");
    }
}

#[tokio::test]
async fn recordings_that_cannot_be_used_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("r.jsonl");
    let problem = async || {
        let failure = open_recording(&file).await.map(drop).unwrap_err();
        failure.problem().to_owned()
    };
    let missing = problem().await;
    assert!(
        missing.starts_with("cannot read the recording "),
        "{missing}"
    );
    std::fs::write(&file, "\n").unwrap();
    let empty = problem().await;
    assert!(empty.ends_with(" is empty"), "{empty}");
    std::fs::write(&file, "\nnot JSON\n").unwrap();
    let other = problem().await;
    assert!(other.starts_with("line 2 of "), "{other}");
}
