//! What can be said of directives when a job is submitted, before any object is looked at: the same for sbatch,
//! `warren workload check`, the creation of a Workflow and its Proposal.

use super::{MeaningFault, among_themselves, container};
use crate::command::Command;
use crate::problem::{Gathered, Problems};
use crate::rules::Ruleset;

/// Checks the directives of a workflow against the site's rules, against each other, and against what Warren carries out.
///
/// # Errors
/// All problems of all directives.
pub fn submitted(lines: &[String], rules: &Ruleset) -> Result<Vec<Command>, Problems> {
    let directives = rules.check(lines)?;
    let mut problems = Gathered::of(lines);
    let commands = among_themselves(&directives, &mut problems);
    for (index, command) in &commands {
        if let Some(fault) = unserved(command) {
            problems.add(*index, fault);
        }
        if let Command::Container(container) = command {
            let faults = container::unnamed_storages(container, &commands);
            faults.for_each(|fault| problems.add(*index, fault));
        }
    }
    problems.or(commands.into_iter().map(|(_, command)| command).collect())
}

/// Refuses what Warren does not carry out: a job must not run without what it asked for.
#[must_use]
pub fn unserved(command: &Command) -> Option<MeaningFault> {
    let (what, why, kind) = match (command, command.requires()) {
        (_, []) => return None,
        (_, words) => (
            format!("requires={}", words.join(",")),
            "copies nothing for programs and gives containers no certificate",
            "argument",
        ),
    };
    Some(MeaningFault::Unserved { what, why, kind })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::shipped;

    const XFS: &str = "#DW jobdw type=xfs capacity=1GiB name=foo";

    /// The problems as the user reads them; empty when the directives are admitted.
    fn told(lines: &[&str]) -> String {
        let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        match submitted(&lines, &Ruleset::new(shipped())) {
            Ok(_) => String::new(),
            Err(problems) => problems.to_string(),
        }
    }

    #[test]
    fn what_the_engine_never_carries_out_is_refused_at_submission() {
        for (line, expected) in [
            (
                "#DW copy_in source=/lus/a destination=$DW_JOB_foo",
                "copy_in is not carried out here: this version of Warren copies nothing; leave the directive out",
            ),
            (
                "#DW jobdw type=xfs capacity=1GiB name=bar requires=copy-offload",
                "requires=copy-offload is not carried out here: this version of Warren copies nothing for programs",
            ),
            ("#DW jobdw type=xfs capacity=0GiB name=bar", "argument capacity=0GiB: a size of 0"),
            (
                "#DW jobdw type=xfs capacity=10000000TB name=bar",
                "argument capacity=10000000TB: more than the 2^63 - 1 bytes",
            ),
            (
                "#DW create_persistent type=xfs capacity=1GiB name=bar",
                "command create_persistent stands alone in a workflow",
            ),
            (
                "#DW container name=cc profile=app DW_JOB_data=other",
                "argument DW_JOB_data=other: this workflow has no directive jobdw name=other",
            ),
        ] {
            let told = told(&[XFS, line]);
            assert!(told.starts_with(&format!("DW directive 1 `{line}`: {expected}")), "{told}");
        }
    }

    #[test]
    fn what_names_an_object_is_looked_up_later() {
        for line in
            ["#DW persistentdw name=later", "#DW container name=cc profile=app DW_JOB_aa=foo"]
        {
            assert_eq!(told(&[XFS, line]), "", "{line}");
        }
    }

    #[test]
    fn a_directive_is_quoted_once_and_a_refusal_is_short_and_clean() {
        let line = "#DW jobdw type=xfs cap=1GiB nam=a profil=b";
        assert_eq!(told(&[line]).matches("#DW").count(), 1, "{}", told(&[line]));
        let long =
            format!("#DW jobdw type=xfs \u{1b}[2Jcapacity={} name=\u{7}", "9".repeat(1 << 20));
        let told = told(&vec![long.as_str(); 64]);
        assert!(told.len() < 4096 && !told.contains(char::is_control), "{} bytes", told.len());
    }
}
