//! Plans the steps that bring the job packages of an object in place. Pure.

use std::collections::BTreeMap;

use containers::JobPackage;

/// The state of a job package on this node, from the view of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Presence {
    /// The job package is neither on the node nor being fetched.
    Absent,
    /// The job package is being fetched. `trouble` is the reason why the last attempt failed.
    Fetched { trouble: Option<String> },
    /// No object waits for the job package any more, but its fetch has not ended yet.
    Ending,
    /// The job package is complete.
    InPlace,
    /// The fetch failed for good, for this reason.
    Impossible(String),
}

/// The state of an object's job packages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    /// Job packages that have a mark of use by this object.
    pub used: Vec<JobPackage>,
    /// The state of each job package.
    pub presence: BTreeMap<JobPackage, Presence>,
}

/// A change that a plan asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Marks a job package as used by the object.
    Use(JobPackage),
    /// Starts a fetch of the job package.
    Fetch(JobPackage),
    /// Adds the object to the objects that wait for a running fetch.
    Join(JobPackage),
}

/// The progress of all job packages of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// All job packages are in place.
    InPlace,
    /// At least one job package is not in place. The text says which one, and why the last attempt failed.
    Awaited(String),
    /// At least one fetch failed for good; the text gives the reason.
    Impossible(String),
}

/// Returns the steps. Returns none if all job packages are in place, or if the object can only
/// wait for running fetches.
#[must_use]
pub fn plan(packages: &[JobPackage], observed: &Observed) -> Vec<Step> {
    let steps = |package: &JobPackage| {
        let is_used = observed.used.contains(package);
        // The mark comes before the fetch, so that the release by another object does not remove the job package in
        // between.
        let mark = (!is_used).then(|| Step::Use(package.clone()));
        let next = match observed.presence.get(package) {
            None | Some(Presence::Absent) => Some(Step::Fetch(package.clone())),
            Some(Presence::Fetched { .. }) => Some(Step::Join(package.clone())),
            Some(Presence::Ending | Presence::InPlace | Presence::Impossible(_)) => None,
        };
        mark.into_iter().chain(next)
    };
    packages.iter().flat_map(steps).collect()
}

/// Returns the progress of the job packages. A final failure takes precedence over a fetch that is still running.
#[must_use]
pub fn report(packages: &[JobPackage], observed: &Observed) -> Progress {
    let states = || packages.iter().map(|package| (package, observed.presence.get(package)));
    let impossible = states().find_map(|(package, presence)| match presence {
        Some(Presence::Impossible(why)) => Some(format!("{}: {why}", describe(package))),
        _ => None,
    });
    if let Some(why) = impossible {
        return Progress::Impossible(why);
    }
    let waits = |(package, presence): (&JobPackage, Option<&Presence>)| match presence {
        Some(Presence::InPlace) => None,
        Some(Presence::Fetched { trouble: Some(why) }) => Some((
            true,
            format!("{}: {why}; the rabbit-agent retries within 1 min", describe(package)),
        )),
        Some(Presence::Ending) => {
            let why = "an earlier fetch for another run has not ended yet";
            Some((true, format!("{}: {why}", describe(package))))
        }
        _ => Some((false, format!("the rabbit-agent is fetching {}", describe(package)))),
    };
    let mut waits: Vec<_> = states().filter_map(waits).collect();
    // A fetch whose last attempt failed comes first: its error helps the user more than the name of a fetch in
    // progress.
    waits.sort_by_key(|(has_trouble, _)| !has_trouble);
    waits.into_iter().next().map_or(Progress::InPlace, |(_, text)| Progress::Awaited(text))
}

fn describe(package: &JobPackage) -> String {
    format!("job package {} from {}", package.name, package.source)
}

#[cfg(test)]
mod tests {
    use containers::package::Source;

    use super::*;

    fn package(name: &str) -> JobPackage {
        JobPackage {
            name: name.to_owned(),
            source: Source::Server(format!("http://server/{name}")),
            sha256: "0".repeat(64),
            size: 1,
            unpacked: None,
        }
    }

    fn observed(states: &[(&str, Presence)]) -> Observed {
        let presence = states.iter().map(|(name, presence)| (package(name), presence.clone()));
        let used = states.iter().map(|(name, _)| package(name));
        Observed { used: used.collect(), presence: presence.collect() }
    }

    #[test]
    fn a_job_package_is_marked_before_it_is_fetched_and_is_fetched_once() {
        let (use_it, fetch) = (Step::Use(package("a")), Step::Fetch(package("a")));
        assert_eq!(plan(&[package("a")], &Observed::default()), [use_it.clone(), fetch.clone()]);
        let fetched = observed(&[("a", Presence::Fetched { trouble: None })]);
        assert_eq!(plan(&[package("a")], &fetched), [Step::Join(package("a"))]);
        assert_eq!(plan(&[package("a")], &observed(&[("a", Presence::Absent)])), [fetch]);
        let unmarked = Observed { used: Vec::new(), ..observed(&[("a", Presence::InPlace)]) };
        assert_eq!(plan(&[package("a")], &unmarked), [use_it]);
        for nothing in [Presence::InPlace, Presence::Ending, Presence::Impossible("x".to_owned())] {
            assert!(plan(&[package("a")], &observed(&[("a", nothing)])).is_empty());
        }
    }

    #[test]
    fn a_final_failure_is_reported_before_a_failed_attempt_that_is_retried() {
        let all = [package("a"), package("b"), package("c")];
        let progress = |states: &[(&str, Presence)]| report(&all, &observed(states));
        let (there, fetched) = (Presence::InPlace, Presence::Fetched { trouble: None });
        assert_eq!(
            progress(&[("a", there.clone()), ("b", there.clone()), ("c", there.clone())]),
            Progress::InPlace
        );
        let trouble = Presence::Fetched { trouble: Some("refused".to_owned()) };
        let expected =
            "job package c from http://server/c: refused; the rabbit-agent retries within 1 min";
        assert_eq!(
            progress(&[("a", there.clone()), ("b", fetched.clone()), ("c", trouble.clone())]),
            Progress::Awaited(expected.to_owned())
        );
        assert_eq!(
            progress(&[("a", there.clone()), ("b", fetched), ("c", there)]),
            Progress::Awaited(
                "the rabbit-agent is fetching job package b from http://server/b".to_owned()
            )
        );
        let wrong = Presence::Impossible("wrong".to_owned());
        assert_eq!(
            progress(&[("a", trouble), ("b", wrong), ("c", Presence::Absent)]),
            Progress::Impossible("job package b from http://server/b: wrong".to_owned())
        );
    }
}
