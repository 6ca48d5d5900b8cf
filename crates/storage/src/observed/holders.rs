//! The mounts and processes that keep a device or a mount in use, so that Warren cannot release it.

use std::fmt;

/// Maximum number of holders that a message names; the message only counts further holders.
const NAMED: usize = 8;

/// The mounts and processes that keep a mount or a device in use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Holders {
    /// Descriptions of the mounts and processes.
    pub names: Vec<String>,
    /// PIDs of the processes: a retry makes sense once all of these processes have ended.
    pub processes: Vec<i32>,
}

/// How a device is still used once it is not mounted at the desired mount point; for a file system without a device,
/// how the file system is still used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Use {
    #[default]
    Free,
    /// This node has the device mounted at another mount point of Warren's, so the agent must not release the device
    /// yet.
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
    fn display_counts_holders_beyond_the_limit_and_describes_an_empty_list_as_an_unseen_process() {
        let names: Vec<_> = (0..11).map(|pid| format!("process {pid}")).collect();
        let text = Holders { names, processes: Vec::new() }.to_string();
        assert!(text.ends_with("process 7 and 3 more"), "{text}");
        assert!(Holders::default().to_string().starts_with("a process that"));
    }
}
