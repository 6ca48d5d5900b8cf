//! The delays after which a controller retries failed work.

use std::time::Duration;

use apiclient::Delays;

/// The event after which a controller retries failed work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Retry {
    /// The failure may end by itself at any moment: first retry after 0.7 to 1.4 s.
    Soon,
    /// A person has to mend the cause on the node: first retry after 3 to 6 s.
    Later,
    /// The failure does not end by itself: retry only when the object, or an object that it refers to, changes.
    #[default]
    OnChange,
}

impl Retry {
    /// Returns the delays after consecutive failures; `None` for [`Retry::OnChange`].
    #[must_use]
    pub fn delays(self) -> Option<Delays> {
        match self {
            Self::Soon => Some(Delays::default()),
            Self::Later => Some(Delays::new(Duration::from_secs(3), Duration::from_secs(30))),
            Self::OnChange => None,
        }
    }
}
