//! The nodes that make up the configuration of an application with profiles, by precedence.
//!
//! Pure: no I/O and no clock.

/// The nodes that make up the configuration of an application, for [`Layers::around_profiles`](crate::Layers::around_profiles):
/// those of Spring Cloud Zookeeper, by default below `/config`.
///
/// From the one that all others override, for the application `orders` with the profile `production`:
///
/// | node | keys of |
/// |---|---|
/// | `application` | all applications |
/// | `application,production` | all applications with the profile |
/// | `orders` | the application |
/// | `orders,production` | the application with the profile |
///
/// Spring takes the path below such a node as a key, with dots instead of slashes, and accepts names with dots as well. Here
/// a node is a level, and a dot in its name is a part of the name.
///
/// ```
/// use zk_config::Profiles;
///
/// let profiles = Profiles::of("orders").with_profile("production");
/// let names: Vec<_> = profiles.names().collect();
/// assert_eq!(names, ["application", "application,production", "orders", "orders,production"]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profiles {
    shared: String,
    application: String,
    active: Vec<String>,
}

impl Profiles {
    /// Starts with an application without profiles.
    pub fn of(application: impl Into<String>) -> Self {
        Self {
            shared: "application".to_owned(),
            application: application.into(),
            active: Vec::new(),
        }
    }

    /// Adds a profile, whose keys override those of the profiles added before.
    #[must_use]
    pub fn with_profile(mut self, profile: impl Into<String>) -> Self {
        self.active.push(profile.into());
        self
    }

    /// Sets the name of the node that all applications share. The default is `application`.
    #[must_use]
    pub fn with_shared(mut self, name: impl Into<String>) -> Self {
        self.shared = name.into();
        self
    }

    /// Returns the names of the nodes, each before those that override it.
    pub fn names(&self) -> impl Iterator<Item = String> {
        [&self.shared, &self.application]
            .into_iter()
            .flat_map(|context| {
                let with_profile = move |profile| format!("{context},{profile}");
                let with_profiles = self.active.iter().map(with_profile);
                std::iter::once(context.clone()).chain(with_profiles)
            })
    }
}
