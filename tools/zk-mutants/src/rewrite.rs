//! Writes mutants into a source file, each as a choice at run time, and finds those that do not compile.
//!
//! Pure: takes texts and returns texts.

use std::ops::Range;

use crate::sites::{Form, Site};

/// A file with mutants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rewritten {
    pub(crate) text: String,
    /// Where the text of each mutant is, by its number.
    pub(crate) places: Vec<(u32, Range<usize>)>,
}

/// Writes mutants that do not overlap into a text.
pub(crate) fn rewrite(source: &str, mutants: &[(u32, &Site)]) -> Rewritten {
    let mut mutants = mutants.to_vec();
    mutants.sort_by_key(|(number, site)| (site.range.start, site.range.end, *number));
    let mut rewritten = Rewritten {
        text: String::with_capacity(source.len() + 80 * mutants.len()),
        places: Vec::new(),
    };
    let mut copied = 0;
    for (number, site) in mutants {
        rewritten.text += &source[copied..site.range.start];
        copied = site.range.end;
        let start = rewritten.text.len();
        rewritten.text += &choice(number, site, &source[site.range.clone()]);
        rewritten.places.push((number, start..rewritten.text.len()));
    }
    rewritten.text += &source[copied..];
    rewritten
}

fn choice(number: u32, site: &Site, original: &str) -> String {
    let changed = &site.changed;
    match site.form {
        Form::Expression => {
            format!("(if crate::__mutant({number}) {{ {changed} }} else {{ {original} }})")
        }
        Form::Statement => format!("if !crate::__mutant({number}) {{ {original} }}"),
        Form::Body => format!("if crate::__mutant({number}) {{ {changed} }}\n"),
    }
}

impl Rewritten {
    /// Returns the mutants that parts of the text, such as those that an error names, belong to.
    pub(crate) fn at<'a>(&'a self, spans: &'a [Range<usize>]) -> impl Iterator<Item = u32> + 'a {
        let touches = |place: &Range<usize>| {
            spans
                .iter()
                .any(|span| span.start < place.end && place.start < span.end)
        };
        let places = self.places.iter();
        places
            .filter(move |(_, place)| touches(place))
            .map(|(number, _)| *number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sites;

    /// Functions with a place for each kind of mutant.
    const SOURCE: &str = r"
/// Waits.
async fn wait(a: u32, lock: &Lock) -> Option<u32> {
    if a > 3 && !lock.is_held() { lock.release().await?; }
    let Some(b) = lock.next() else { return None };
    while b + 1 < a { lock.poll(1_u64, /* why */ true); }
    match a { 1 if b == a => Some(b - 1), _ => None }
}
";

    #[test]
    fn each_mutant_can_be_written_alone() {
        let found = sites::read(SOURCE).unwrap().sites;
        assert!(found.len() > 15, "{}", found.len());
        for site in &found {
            let rewritten = rewrite(SOURCE, &[(7, site)]);
            syn::parse_file(&rewritten.text)
                .unwrap_or_else(|error| panic!("{error}: {}", rewritten.text));
            let (number, place) = rewritten.places[0].clone();
            assert!(number == 7 && rewritten.text[place].contains("crate::__mutant(7)"));
        }
    }

    #[test]
    fn mutants_that_do_not_overlap_can_be_written_together() {
        let found = sites::read(SOURCE).unwrap().sites;
        let mut chosen: Vec<(u32, &Site)> = Vec::new();
        // From the last, to see that the order does not matter.
        for (number, site) in (1..).zip(found.iter().rev()) {
            if !chosen.iter().any(|(_, other)| other.overlaps(site)) {
                chosen.push((number, site));
            }
        }
        assert!(chosen.len() > 6, "{}", chosen.len());
        let rewritten = rewrite(SOURCE, &chosen);
        syn::parse_file(&rewritten.text).unwrap();
        for (number, place) in &rewritten.places {
            assert!(rewritten.text[place.clone()].contains(&format!("__mutant({number})")));
        }
    }

    #[test]
    fn each_form_keeps_the_original() {
        let site = |form, start, end, changed: &str| Site {
            range: start..end,
            line: 1,
            form,
            original: String::new(),
            changed: changed.to_owned(),
        };
        for (form, start, end, changed, expected) in [
            (
                Form::Expression,
                7,
                12,
                "a - b",
                "f() { (if crate::__mutant(1) { a - b } else { a + b }); }",
            ),
            (
                Form::Statement,
                6,
                13,
                "",
                "f() { if !crate::__mutant(1) {  a + b; } }",
            ),
            (
                Form::Body,
                6,
                6,
                "return;",
                "f() { if crate::__mutant(1) { return; }\n a + b; }",
            ),
        ] {
            let text = "f() {  a + b; }";
            let rewritten = rewrite(text, &[(1, &site(form, start, end, changed))]);
            assert_eq!(
                rewritten.text.replace("{  ", "{ "),
                expected.replace("{  ", "{ ")
            );
        }
    }

    #[test]
    fn an_error_belongs_to_the_mutants_that_its_spans_touch() {
        let rewritten = Rewritten {
            text: String::new(),
            places: vec![(1, 10..20), (2, 30..40), (3, 50..60)],
        };
        for (spans, expected) in [
            ([12..14, 0..1], &[1][..]),
            ([19..31, 0..1], &[1, 2]),
            ([0..5, 55..56], &[3]),
            ([20..30, 0..1], &[]),
        ] {
            let at: Vec<u32> = rewritten.at(&spans).collect();
            assert_eq!(at, expected, "{spans:?}");
        }
    }
}
