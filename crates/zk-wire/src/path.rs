//! Absolute node paths.
//!
//! Pure: no I/O and no clock.

use std::borrow::Borrow;
use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The absolute path of a node.
///
/// A value of this type is always a path that some release of ZooKeeper accepts. The characters U+001F, U+007F, U+009F,
/// U+F8FF, U+FFF0 and U+FFFF are those of old releases: newer ones refuse to create a node with one of them in its name.
/// It is relative to the chroot of the session that uses it.
/// Cloning is cheap.
///
/// ```
/// use zk_wire::NodePath;
///
/// let path: NodePath = "/app/locks".parse()?;
/// assert_eq!(path.join("a")?.as_str(), "/app/locks/a");
/// assert_eq!(path.name(), Some("locks"));
/// let error = "app".parse::<NodePath>().unwrap_err();
/// assert_eq!(error.to_string(), r#"path "app" does not start with '/'; write "/app""#);
/// # Ok::<(), zk_wire::ParsePathError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodePath(Arc<str>);

impl NodePath {
    /// Returns the root, `/`.
    #[must_use]
    pub fn root() -> Self {
        Self(Arc::from("/"))
    }

    /// Parses an absolute path.
    ///
    /// # Errors
    ///
    /// If every release of ZooKeeper would refuse the path: see [`ParsePathError`].
    pub fn parse(path: &str) -> Result<Self, ParsePathError> {
        match problem_of(path) {
            None => Ok(Self(Arc::from(path))),
            Some(problem) => Err(ParsePathError {
                path: path.to_owned(),
                problem,
            }),
        }
    }

    /// Returns the path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether this is the root.
    pub fn is_root(&self) -> bool {
        self.as_str() == "/"
    }

    /// Returns the last component, or `None` for the root.
    pub fn name(&self) -> Option<&str> {
        self.split().map(|(_, name)| name)
    }

    /// Returns the path without its last component, or `None` for the root.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        self.split().map(|(parent, _)| {
            if parent.is_empty() {
                Self::root()
            } else {
                Self(Arc::from(parent))
            }
        })
    }

    /// Returns an iterator over the ancestors, from the parent to the root.
    pub fn ancestors(&self) -> impl Iterator<Item = Self> + use<> {
        std::iter::successors(self.parent(), Self::parent)
    }

    /// Returns how many levels this path is below `base`, zero for `base` itself; `None` if it is not below it.
    ///
    /// # Examples
    ///
    /// ```
    /// use zk_wire::NodePath;
    ///
    /// let path: NodePath = "/a/b/c".parse()?;
    /// assert_eq!(path.depth_below(&NodePath::root()), Some(3));
    /// assert_eq!(path.depth_below(&"/a".parse()?), Some(2));
    /// assert_eq!(path.depth_below(&"/a/x".parse()?), None);
    /// # Ok::<(), zk_wire::ParsePathError>(())
    /// ```
    pub fn depth_below(&self, base: &Self) -> Option<usize> {
        let rest = self.prefix().strip_prefix(base.prefix())?;
        (rest.is_empty() || rest.starts_with('/')).then(|| rest.matches('/').count())
    }

    /// Returns the path of the child `name`, which may consist of several components joined by `/`.
    ///
    /// # Errors
    ///
    /// If the name is empty or ZooKeeper would refuse the resulting path.
    pub fn join(&self, name: &str) -> Result<Self, ParsePathError> {
        if name.is_empty() {
            return Err(ParsePathError {
                path: self.as_str().to_owned(),
                problem: Problem::EmptyName,
            });
        }
        Self::parse(&format!("{}/{name}", self.prefix()))
    }

    /// Returns `path` below this one: `/b` below `/a` is `/a/b`.
    #[must_use]
    pub fn join_path(&self, path: &Self) -> Self {
        match (self.is_root(), path.is_root()) {
            (true, _) => path.clone(),
            (_, true) => self.clone(),
            _ => Self(Arc::from(format!("{self}{path}"))),
        }
    }

    /// Returns this path relative to `base`: `/a/b` is `/b` below `/a`; `None` if it is not below it nor the same path.
    ///
    /// # Examples
    ///
    /// ```
    /// use zk_wire::NodePath;
    ///
    /// let path: NodePath = "/a/b".parse()?;
    /// assert_eq!(path.relative_to(&"/a".parse()?), Some("/b".parse()?));
    /// assert_eq!(path.relative_to(&path), Some(NodePath::root()));
    /// assert_eq!("/ab".parse::<NodePath>()?.relative_to(&"/a".parse()?), None);
    /// # Ok::<(), zk_wire::ParsePathError>(())
    /// ```
    pub fn relative_to(&self, base: &Self) -> Option<Self> {
        match self.as_str().strip_prefix(base.prefix())? {
            "" => Some(Self::root()),
            rest if rest.starts_with('/') => Some(Self(Arc::from(rest))),
            _ => None,
        }
    }

    /// Returns whether a node can have this name.
    pub fn is_name(name: &str) -> bool {
        let is_plain = |byte| matches!(byte, b' '..=b'-' | b'0'..=b'~');
        let is_ordinary = name.bytes().all(is_plain);
        let is_valid = || !name.contains('/') && problem_of(&format!("/{name}")).is_none();
        !name.is_empty() && (is_ordinary || is_valid())
    }

    /// Returns what precedes the slash of a child's name.
    fn prefix(&self) -> &str {
        if self.is_root() { "" } else { self.as_str() }
    }

    fn split(&self) -> Option<(&str, &str)> {
        if self.is_root() {
            None
        } else {
            self.as_str().rsplit_once('/')
        }
    }
}

impl fmt::Display for NodePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for NodePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl AsRef<str> for NodePath {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

/// A map by paths can be asked for a text.
impl Borrow<str> for NodePath {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl FromStr for NodePath {
    type Err = ParsePathError;

    fn from_str(path: &str) -> Result<Self, Self::Err> {
        Self::parse(path)
    }
}

impl TryFrom<&str> for NodePath {
    type Error = ParsePathError;

    fn try_from(path: &str) -> Result<Self, Self::Error> {
        Self::parse(path)
    }
}

impl TryFrom<&String> for NodePath {
    type Error = ParsePathError;

    fn try_from(path: &String) -> Result<Self, Self::Error> {
        Self::parse(path)
    }
}

impl TryFrom<String> for NodePath {
    type Error = ParsePathError;

    fn try_from(path: String) -> Result<Self, Self::Error> {
        Self::parse(&path)
    }
}

impl From<&Self> for NodePath {
    fn from(path: &Self) -> Self {
        path.clone()
    }
}

/// What can be taken for the path of a node: a [`NodePath`], or a text that is parsed.
///
/// It is implemented for everything that converts into a [`NodePath`] with [`TryInto`].
pub trait IntoNodePath {
    /// Returns the path.
    ///
    /// # Errors
    ///
    /// If it is not a valid path.
    fn into_node_path(self) -> Result<NodePath, ParsePathError>;
}

impl<P> IntoNodePath for P
where
    P: TryInto<NodePath>,
    P::Error: Into<ParsePathError>,
{
    fn into_node_path(self) -> Result<NodePath, ParsePathError> {
        self.try_into().map_err(Into::into)
    }
}

/// A string is not a valid node path.
///
/// The message contains the problem, its position, and the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsePathError {
    path: String,
    problem: Problem,
}

impl ParsePathError {
    /// Returns the invalid path.
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl fmt::Display for ParsePathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.path;
        match &self.problem {
            Problem::Empty => write!(f, r#"path is empty; the root is "/""#),
            Problem::EmptyName => write!(
                f,
                "the name of a child of {path:?} is empty; give at least one character"
            ),
            Problem::Relative => write!(
                f,
                "path {path:?} does not start with '/'; write {:?}",
                format!("/{path}")
            ),
            Problem::TrailingSlash => {
                write!(
                    f,
                    "path {path:?} ends with '/'; write {:?}",
                    path.trim_end_matches('/')
                )
            }
            Problem::EmptyComponent { at } => {
                write!(
                    f,
                    "path {path:?} has an empty component at byte {at}; write one '/' between names"
                )
            }
            Problem::Dots { name } => {
                write!(
                    f,
                    "path {path:?} has the component {name:?}; write the path out, without \".\" and \"..\""
                )
            }
            Problem::Character { character, at } => write!(
                f,
                "path {path:?} has the character U+{:04X} at byte {at}, which ZooKeeper does not allow in names; \
                 leave out control, private-use and supplementary characters",
                u32::from(*character)
            ),
        }
    }
}

impl std::error::Error for ParsePathError {}

impl From<Infallible> for ParsePathError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Problem {
    Empty,
    EmptyName,
    Relative,
    TrailingSlash,
    EmptyComponent { at: usize },
    Dots { name: String },
    Character { character: char, at: usize },
}

/// Checks a path by the rules of servers of 3.4, which are the least strict.
///
/// A server checks UTF-16 code units. It refuses surrogates, and therefore supplementary characters. Newer ones also refuse
/// the last and the first character of each range (`PathUtils.validatePath`).
fn problem_of(path: &str) -> Option<Problem> {
    if path.is_empty() {
        return Some(Problem::Empty);
    }
    if let Some((at, character)) = path
        .char_indices()
        .find(|&(_, character)| is_refused(character))
    {
        return Some(Problem::Character { character, at });
    }
    let Some(names) = path.strip_prefix('/') else {
        return Some(Problem::Relative);
    };
    if names.is_empty() {
        return None;
    }
    let mut at = 1;
    for name in names.split('/') {
        match name {
            "" if at == path.len() => return Some(Problem::TrailingSlash),
            "" => return Some(Problem::EmptyComponent { at }),
            "." | ".." => {
                return Some(Problem::Dots {
                    name: name.to_owned(),
                });
            }
            _ => at += name.len() + 1,
        }
    }
    None
}

fn is_refused(character: char) -> bool {
    matches!(
        u32::from(character),
        0x00..=0x1e | 0x80..=0x9e | 0xd800..=0xf8fe | 0xfff1..=0xfffe | 0x1_0000..
    )
}

#[cfg(test)]
mod tests;
