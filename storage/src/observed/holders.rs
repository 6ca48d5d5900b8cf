//! Who keeps something in use that should go.

use std::fmt;

/// As many as help at 3 a.m.; the rest is counted.
const NAMED: usize = 8;

/// Who keeps a mount or a device in use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Holders {
    /// Mounts and processes, each in words.
    pub told: Vec<String>,
    /// The processes, by their ids: when all have ended it is worth another try.
    pub processes: Vec<i32>,
}

/// Whether anybody uses the device of a mount that is to go, or its file system where it has no device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Use {
    /// Nobody does.
    #[default]
    Free,
    /// This node has the device mounted at another place of ours: it goes with the last of them.
    MountedHere,
    /// Somebody else does.
    HeldBy(Holders),
}

impl From<Option<Holders>> for Use {
    fn from(holders: Option<Holders>) -> Self {
        holders.map_or(Self::Free, Self::HeldBy)
    }
}

impl fmt::Display for Holders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.told.is_empty() {
            return f.write_str("somebody who is not among the processes that this agent can see");
        }
        let named = self.told.len().min(NAMED);
        f.write_str(&self.told[..named].join(", "))?;
        match self.told.len() - named {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_are_counted_and_nobody_is_said() {
        let told: Vec<_> = (0..11).map(|pid| format!("process {pid}")).collect();
        let text = Holders { told, processes: Vec::new() }.to_string();
        assert!(text.ends_with("process 7 and 3 more"), "{text}");
        assert!(Holders::default().to_string().starts_with("somebody"));
    }
}
