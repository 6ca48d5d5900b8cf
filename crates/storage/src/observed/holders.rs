//! Who keeps something in use that should be released.

use std::fmt;

/// How many holders a message names; the others are counted.
const NAMED: usize = 8;

/// Who keeps a mount or a device in use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Holders {
    /// Mounts and processes, described.
    pub names: Vec<String>,
    /// PIDs of the processes: a retry makes sense once all have ended.
    pub processes: Vec<i32>,
}

/// Whether anybody uses the device of a mount that should go, or its file system where there is no device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Use {
    #[default]
    Free,
    /// This node has the device mounted at another mount point of ours: it is released with the last of them.
    MountedHere,
    HeldBy(Holders),
}

impl From<Option<Holders>> for Use {
    fn from(holders: Option<Holders>) -> Self {
        holders.map_or(Self::Free, Self::HeldBy)
    }
}

impl fmt::Display for Holders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.names.is_empty() {
            return f.write_str("somebody who is not among the processes that this agent can see");
        }
        let named = self.names.len().min(NAMED);
        f.write_str(&self.names[..named].join(", "))?;
        match self.names.len() - named {
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
        let names: Vec<_> = (0..11).map(|pid| format!("process {pid}")).collect();
        let text = Holders { names, processes: Vec::new() }.to_string();
        assert!(text.ends_with("process 7 and 3 more"), "{text}");
        assert!(Holders::default().to_string().starts_with("somebody"));
    }
}
