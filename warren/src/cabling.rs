//! Compares the namespaces that computes reach with those that rabbits have attached to their ports. Pure.
//!
//! A rabbit attaches a namespace to a port of its PCIe switch, and the SystemConfiguration says which compute is at the
//! port. If another compute is plugged into the port, that compute reaches the namespace.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::Serialize;

/// NQN of the drive, and namespace id.
pub(crate) type Namespace = (String, u32);

/// A port of a rabbit's PCIe switch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Port {
    pub rabbit: String,
    pub index: i64,
}

/// The namespaces that a compute has to reach, and its port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    /// Where the SystemConfiguration says that the compute is plugged in.
    pub port: Port,
    /// Namespaces that rabbits have attached to the compute.
    pub namespaces: BTreeSet<Namespace>,
}

/// The namespaces that a compute reaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Namespaces(BTreeSet<Namespace>),
    /// The compute did not say, for this reason.
    Unknown(String),
}

/// How a compute is plugged in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "result")]
pub(crate) enum Verdict {
    /// The compute reaches what it has to, and no other compute has to reach the same.
    Right,
    /// The compute reaches what it has to, and so would these computes in its place: a swap does not show.
    #[serde(rename_all = "camelCase")]
    Alike { others: Vec<String> },
    /// Nothing is attached to the compute, and it reaches nothing of the rabbits.
    Untested,
    /// The compute reaches what the other has to reach, and the other what this compute has to.
    #[serde(rename_all = "camelCase")]
    Swapped { with: String },
    /// The compute reaches exactly what one of these computes has to.
    #[serde(rename_all = "camelCase")]
    SeesOthers { others: Vec<String> },
    /// The compute reaches none, or not all, of the namespaces that it has to, and no others.
    #[serde(rename_all = "camelCase")]
    Misses { missing: usize, expected: usize },
    /// The compute lacks namespaces, and reaches some that are attached to these other computes.
    #[serde(rename_all = "camelCase")]
    Mixed { missing: usize, others: Vec<String> },
    /// Nothing is known of the compute.
    #[serde(rename_all = "camelCase")]
    Unknown { why: String },
}

impl Verdict {
    /// Returns true if a cable, drive or setting is wrong.
    pub(crate) fn is_wrong(&self) -> bool {
        match self {
            Self::Swapped { .. }
            | Self::SeesOthers { .. }
            | Self::Misses { .. }
            | Self::Mixed { .. } => true,
            Self::Right | Self::Alike { .. } | Self::Untested | Self::Unknown { .. } => false,
        }
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "port {} of {}", self.index, self.rabbit)
    }
}

/// Compares what each compute has to reach with what it reaches. A compute that is not in `seen` is unknown. Namespaces
/// that no compute has to reach, such as those of a compute's own drives, do not count.
pub(crate) fn compare(
    expected: &BTreeMap<String, Expected>,
    seen: &BTreeMap<String, Seen>,
) -> BTreeMap<String, Verdict> {
    let known: BTreeSet<&Namespace> =
        expected.values().flat_map(|expected| &expected.namespaces).collect();
    let relevant = |compute: &str| match seen.get(compute) {
        Some(Seen::Namespaces(all)) => {
            Ok(all.iter().filter(|namespace| known.contains(namespace)).cloned().collect())
        }
        Some(Seen::Unknown(why)) => Err(why.clone()),
        None => Err("it was not asked".to_owned()),
    };
    let reached: BTreeMap<&str, Result<BTreeSet<Namespace>, String>> =
        expected.keys().map(|compute| (compute.as_str(), relevant(compute))).collect();
    let judge = |compute: &String| (compute.clone(), judge(compute, expected, &reached));
    expected.keys().map(judge).collect()
}

fn judge(
    compute: &str,
    expected: &BTreeMap<String, Expected>,
    reached: &BTreeMap<&str, Result<BTreeSet<Namespace>, String>>,
) -> Verdict {
    let own = &expected[compute].namespaces;
    let seen = match &reached[compute] {
        Ok(seen) => seen,
        Err(why) => return Verdict::Unknown { why: why.clone() },
    };
    let others = |accepts: &dyn Fn(&BTreeSet<Namespace>) -> bool| -> Vec<String> {
        let others = expected.iter().filter(|(other, _)| *other != compute);
        let others = others.filter(|(_, expected)| accepts(&expected.namespaces));
        others.map(|(other, _)| other.clone()).collect()
    };
    if seen == own {
        let alike = others(&|theirs| theirs == own);
        return match (own.is_empty(), alike.is_empty()) {
            (true, _) => Verdict::Untested,
            (false, true) => Verdict::Right,
            (false, false) => Verdict::Alike { others: alike },
        };
    }
    let same = if seen.is_empty() { Vec::new() } else { others(&|theirs| theirs == seen) };
    let is_partner = |other: &&String| {
        matches!(&reached[other.as_str()], Ok(theirs) if theirs == own) && !own.is_empty()
    };
    let partners: Vec<&String> = same.iter().filter(is_partner).collect();
    let missing = own.difference(seen).count();
    match (&partners[..], &same[..]) {
        ([partner], _) => Verdict::Swapped { with: (*partner).clone() },
        _ if seen.is_subset(own) => Verdict::Misses { missing, expected: own.len() },
        (_, []) => {
            let strange: BTreeSet<_> = seen.difference(own).collect();
            let has_any = |theirs: &BTreeSet<Namespace>| {
                theirs.iter().any(|namespace| strange.contains(namespace))
            };
            Verdict::Mixed { missing, others: others(&has_any) }
        }
        (_, same) => Verdict::SeesOthers { others: same.to_vec() },
    }
}

#[cfg(test)]
mod tests;
