//! Draws nodes from bytes: samples, samples with changes, and anything else.

use arbitrary::{Result, Unstructured};

use crate::readers::{READERS, Reader};

/// Which recipe reads, and what others have put below its path.
#[derive(Debug)]
pub(crate) struct Input {
    pub(crate) reader: usize,
    pub(crate) nodes: Vec<ForeignNode>,
    /// The data of the process's own node after that, if it has one.
    pub(crate) inbox: Vec<u8>,
}

/// A node that no recipe of ours may have made.
#[derive(Debug, Clone)]
pub(crate) struct ForeignNode {
    pub(crate) path: String,
    pub(crate) data: Vec<u8>,
}

impl Input {
    /// Draws an input, for a given reader or for any.
    pub(crate) fn from_bytes(bytes: &[u8], reader: Option<usize>) -> Self {
        let mut from = Unstructured::new(bytes);
        let drawn = from.int_in_range(0..=READERS.len() - 1).unwrap_or(0);
        let mut input = Self {
            reader: reader.unwrap_or(drawn),
            nodes: Vec::new(),
            inbox: Vec::new(),
        };
        let reader = &READERS[input.reader];
        input.inbox = data(&mut from, reader).unwrap_or_default();
        while !from.is_empty() && input.nodes.len() < MOST_NODES {
            let Ok(node) = node(&mut from, reader) else {
                break;
            };
            input.nodes.push(node);
        }
        input
    }

    /// Returns all samples of a reader, each name with each data.
    pub(crate) fn of_samples(reader: usize) -> Self {
        let Reader {
            places,
            names,
            data,
            ..
        } = READERS[reader];
        let mut nodes = Vec::new();
        for place in places {
            let names = if place.ends_with('/') { names } else { &[""] };
            for (at, name) in names.iter().enumerate() {
                nodes.push(ForeignNode {
                    path: format!("{PATH}{place}{name}"),
                    data: data[at % data.len()].to_vec(),
                });
            }
        }
        Self {
            reader,
            nodes,
            inbox: data[0].to_vec(),
        }
    }
}

fn node(from: &mut Unstructured<'_>, reader: &Reader) -> Result<ForeignNode> {
    let place = *from.choose(reader.places)?;
    let name = if place.ends_with('/') {
        name(from, reader)?
    } else {
        String::new()
    };
    Ok(ForeignNode {
        path: format!("{PATH}{place}{name}"),
        data: data(from, reader)?,
    })
}

fn name(from: &mut Unstructured<'_>, reader: &Reader) -> Result<String> {
    let sample = *from.choose(reader.names)?;
    Ok(match from.int_in_range(0..=3)? {
        0 => sample.to_owned(),
        1 => text(from)?,
        // The beginning of a sample, with another end.
        2 => {
            let kept = from.int_in_range(0..=sample.len())?;
            let kept = sample.get(..kept).unwrap_or(sample);
            format!("{kept}{}", text(from)?)
        }
        _ => String::from_utf8_lossy(&changed(from, sample.as_bytes())?).into_owned(),
    })
}

fn data(from: &mut Unstructured<'_>, reader: &Reader) -> Result<Vec<u8>> {
    let sample = *from.choose(reader.data)?;
    Ok(match from.int_in_range(0..=3)? {
        0 => sample.to_vec(),
        1 => bytes(from)?,
        2 => {
            let kept = from.int_in_range(0..=sample.len())?;
            [&sample[..kept], &bytes(from)?].concat()
        }
        _ => changed(from, sample)?,
    })
}

/// Replaces, inserts or deletes a few bytes.
fn changed(from: &mut Unstructured<'_>, sample: &[u8]) -> Result<Vec<u8>> {
    let mut bytes = sample.to_vec();
    for _ in 0..from.int_in_range(1..=4)? {
        let at = from.int_in_range(0..=bytes.len())?;
        let byte = from.arbitrary()?;
        match from.int_in_range(0..=2)? {
            0 => bytes.insert(at, byte),
            1 if at < bytes.len() => bytes[at] = byte,
            _ if at < bytes.len() => drop(bytes.remove(at)),
            _ => bytes.push(byte),
        }
    }
    Ok(bytes)
}

fn bytes(from: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let length = from.int_in_range(0..=40)?;
    Ok(from.bytes(length.min(from.len()))?.to_vec())
}

fn text(from: &mut Unstructured<'_>) -> Result<String> {
    Ok(String::from_utf8_lossy(&bytes(from)?).into_owned())
}

const MOST_NODES: usize = 6;
/// The path of the recipe.
pub(crate) const PATH: &str = "/r";
