//! The mounts and processes that keep a device or a mount in use that should be released.

use std::fmt;

/// Maximum number of holders that a message names; it counts the others.
const NAMED: usize = 8;

/// The mounts and processes that keep a mount or a device in use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Holders {
    /// Descriptions of the mounts and processes.
    pub names: Vec<String>,
    /// PIDs of the processes: a retry makes sense once all have ended.
    pub processes: Vec<i32>,
}

/// How the device of a mount that should go is used, or its file system where there is no device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Use {
    #[default]
    Free,
    /// This node has the device mounted at another mount point of Warren's: it is released with the last of them.
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
            return f.write_str("a process that this agent cannot see");
        }
        let count = self.names.len().min(NAMED);
        f.write_str(&self.names[..count].join(", "))?;
        match self.names.len() - count {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_beyond_the_limit_are_counted_and_no_holder_is_a_process_unseen() {
        let names: Vec<_> = (0..11).map(|pid| format!("process {pid}")).collect();
        let text = Holders { names, processes: Vec::new() }.to_string();
        assert!(text.ends_with("process 7 and 3 more"), "{text}");
        assert!(Holders::default().to_string().starts_with("a process that"));
    }
}
