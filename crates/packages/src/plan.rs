//! What is to be done so that an object's packages are in place. Pure.

use std::collections::BTreeMap;

use containers::Package;

/// How far a package is on this node, for one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Presence {
    /// It is not there, and nobody fetches it.
    Absent,
    /// It is fetched; `trouble` is how the last try failed.
    Fetched { trouble: Option<String> },
    /// Nobody wanted it any more, and who fetched it has not ended yet.
    Ending,
    /// It is complete.
    InPlace,
    /// It cannot be had.
    Impossible(String),
}

/// What there is of an object's packages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    /// Packages that the object is marked as using.
    pub used: Vec<Package>,
    /// How far each is.
    pub presence: BTreeMap<Package, Presence>,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Marks a package as used by the object.
    Use(Package),
    /// Begins to fetch it.
    Fetch(Package),
    /// Waits for it beside those that it is fetched for.
    Join(Package),
}

/// How far all of an object's packages are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// They are there.
    InPlace,
    /// One is not: what is waited for, and how the last try failed.
    Awaited(String),
    /// One cannot be had.
    Impossible(String),
}

/// The steps; none when everything is in place, or only others bring it on.
#[must_use]
pub fn plan(packages: &[Package], observed: &Observed) -> Vec<Step> {
    let of = |package: &Package| {
        let used = observed.used.contains(package);
        // Before it is fetched, so that nobody removes it in between.
        let used = (!used).then(|| Step::Use(package.clone()));
        let next = match observed.presence.get(package) {
            None | Some(Presence::Absent) => Some(Step::Fetch(package.clone())),
            Some(Presence::Fetched { .. }) => Some(Step::Join(package.clone())),
            Some(Presence::Ending | Presence::InPlace | Presence::Impossible(_)) => None,
        };
        used.into_iter().chain(next)
    };
    packages.iter().flat_map(of).collect()
}

/// How far they are. A package that cannot be had is reported before one that is waited for.
#[must_use]
pub fn report(packages: &[Package], observed: &Observed) -> Progress {
    let all = || packages.iter().map(|package| (package, observed.presence.get(package)));
    let impossible = all().find_map(|(package, presence)| match presence {
        Some(Presence::Impossible(why)) => Some(format!("{}: {why}", described(package))),
        _ => None,
    });
    if let Some(why) = impossible {
        return Progress::Impossible(why);
    }
    let waits = |(package, presence): (&Package, Option<&Presence>)| match presence {
        Some(Presence::InPlace) => None,
        Some(Presence::Fetched { trouble: Some(why) }) => Some((
            true,
            format!("{}: {why}; the rabbit-agent retries within 1 min", described(package)),
        )),
        Some(Presence::Ending) => {
            let why = "an earlier try for another run has not ended yet";
            Some((true, format!("{}: {why}", described(package))))
        }
        _ => Some((false, format!("the rabbit-agent is fetching {}", described(package)))),
    };
    let mut waits: Vec<_> = all().filter_map(waits).collect();
    // One with trouble says more.
    waits.sort_by_key(|(has_trouble, _)| !has_trouble);
    waits.into_iter().next().map_or(Progress::InPlace, |(_, text)| Progress::Awaited(text))
}

fn described(package: &Package) -> String {
    format!("package {} from {}", package.name, package.source)
}

#[cfg(test)]
mod tests {
    use containers::package::Source;

    use super::*;

    fn package(name: &str) -> Package {
        Package {
            name: name.to_owned(),
            source: Source::Server(format!("http://server/{name}")),
            sha256: "0".repeat(64),
            size: 1,
            unpacked: None,
        }
    }

    fn observed(all: &[(&str, Presence)]) -> Observed {
        let presence = all.iter().map(|(name, presence)| (package(name), presence.clone()));
        let used = all.iter().map(|(name, _)| package(name));
        Observed { used: used.collect(), presence: presence.collect() }
    }

    #[test]
    fn a_package_is_marked_before_it_is_fetched_and_fetched_once() {
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
    fn what_cannot_be_had_is_told_first_then_trouble() {
        let all = [package("a"), package("b"), package("c")];
        let told = |of: &[(&str, Presence)]| report(&all, &observed(of));
        let (there, fetched) = (Presence::InPlace, Presence::Fetched { trouble: None });
        assert_eq!(
            told(&[("a", there.clone()), ("b", there.clone()), ("c", there.clone())]),
            Progress::InPlace
        );
        let trouble = Presence::Fetched { trouble: Some("refused".to_owned()) };
        let expected =
            "package c from http://server/c: refused; the rabbit-agent retries within 1 min";
        assert_eq!(
            told(&[("a", there.clone()), ("b", fetched.clone()), ("c", trouble.clone())]),
            Progress::Awaited(expected.to_owned())
        );
        assert_eq!(
            told(&[("a", there.clone()), ("b", fetched), ("c", there)]),
            Progress::Awaited(
                "the rabbit-agent is fetching package b from http://server/b".to_owned()
            )
        );
        let wrong = Presence::Impossible("wrong".to_owned());
        assert_eq!(
            told(&[("a", trouble), ("b", wrong), ("c", Presence::Absent)]),
            Progress::Impossible("package b from http://server/b: wrong".to_owned())
        );
    }
}
