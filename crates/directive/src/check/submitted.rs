//! The checks at submission, which read no object. `sbatch`, `warren workload check`, the creation of a Workflow and
//! its Proposal all make the same checks.

use super::{MeaningFault, container, read_and_compare};
use crate::command::Command;
use crate::location::Location;
use crate::problem::{ProblemList, Problems};
use crate::rules::Ruleset;

/// Expands presets, and checks that the directives of a workflow obey the site's rules, do not contradict each other, and ask only for
/// features that Warren has.
///
/// # Errors
/// All problems of all directives.
pub fn submitted(lines: &[String], rules: &Ruleset) -> Result<Vec<Command>, Problems> {
    let lines = &rules.expand(lines)?;
    let directives = rules.check(lines)?;
    let mut problems = ProblemList::new(lines);
    let commands = read_and_compare(&directives, &mut problems);
    for (index, command) in &commands {
        if let Some(fault) = unsupported(command) {
            problems.add(*index, fault);
        }
        if let Command::Container(container) = command {
            let faults = container::unnamed_storages(container, &commands);
            faults.for_each(|fault| problems.add(*index, fault));
        }
    }
    problems.into_result(commands.into_iter().map(|(_, command)| command).collect())
}

/// Returns a fault for a feature that Warren lacks: a job must not run without a feature that it asked for.
#[must_use]
pub fn unsupported(command: &Command) -> Option<MeaningFault> {
    let words = command.requires();
    if !words.is_empty() {
        let what = format!("requires={}", words.join(","));
        let why = "offers neither copy offload to programs nor certificates to containers";
        return Some(MeaningFault::Unsupported { what, why, kind: "argument" });
    }
    unsupported_copy(command)
}

/// Returns a fault for a `copy_in` whose destination or a `copy_out` whose source is not storage on rabbits.
fn unsupported_copy(command: &Command) -> Option<MeaningFault> {
    let (key, side) = match command {
        Command::CopyIn(copy) => ("destination", &copy.destination),
        Command::CopyOut(copy) => ("source", &copy.source),
        _ => return None,
    };
    if !matches!(side, Location::Global(_)) {
        return None;
    }
    let what = format!("this {key} of {}", command.word());
    let why = "copies to $DW_JOB_ and $DW_PERSISTENT_ storage by copy_in, and from it by copy_out";
    Some(MeaningFault::Unsupported { what, why, kind: "directive" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::shipped;

    const XFS: &str = "#DW jobdw type=xfs capacity=1GiB name=foo";

    /// Returns the problems as the user reads them; empty when the directives are admitted.
    fn refusal(lines: &[&str]) -> String {
        let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        match submitted(&lines, &Ruleset::new(shipped())) {
            Ok(_) => String::new(),
            Err(problems) => problems.to_string(),
        }
    }

    #[test]
    fn a_directive_that_warren_never_carries_out_is_refused_at_submission() {
        for (line, expected) in [
            (
                "#DW copy_in source=$DW_JOB_foo destination=/lus/a",
                "Warren does not support this destination of copy_in: this version copies to $DW_JOB_ and $DW_PERSISTENT_ storage by copy_in",
            ),
            (
                "#DW copy_out source=/lus/a destination=$DW_JOB_foo",
                "Warren does not support this source of copy_out: this version copies to $DW_JOB_ and $DW_PERSISTENT_ storage by copy_in",
            ),
            (
                "#DW jobdw type=xfs capacity=1GiB name=bar requires=copy-offload",
                "Warren does not support requires=copy-offload: this version offers neither copy offload",
            ),
            ("#DW jobdw type=xfs capacity=0GiB name=bar", "argument capacity=0GiB: a size of 0"),
            (
                "#DW jobdw type=xfs capacity=10000000TB name=bar",
                "argument capacity=10000000TB: more than the 2^63 - 1 bytes",
            ),
            (
                "#DW create_persistent type=xfs capacity=1GiB name=bar",
                "command create_persistent must be the only directive of its workflow",
            ),
            (
                "#DW container name=cc profile=app DW_JOB_data=other",
                "argument DW_JOB_data=other: this workflow has no directive jobdw name=other",
            ),
        ] {
            let refusal = refusal(&[XFS, line]);
            assert!(
                refusal.starts_with(&format!("DW directive 1 `{line}`: {expected}")),
                "{refusal}"
            );
        }
    }

    #[test]
    fn directives_that_name_unknown_objects_are_admitted_at_submission() {
        for line in
            ["#DW persistentdw name=later", "#DW container name=cc profile=app DW_JOB_aa=foo"]
        {
            assert_eq!(refusal(&[XFS, line]), "", "{line}");
        }
    }

    #[test]
    fn a_refusal_quotes_each_directive_once_and_is_short_and_free_of_control_characters() {
        let line = "#DW jobdw type=xfs cap=1GiB nam=a profil=b";
        assert_eq!(refusal(&[line]).matches("#DW").count(), 1, "{}", refusal(&[line]));
        let long =
            format!("#DW jobdw type=xfs \u{1b}[2Jcapacity={} name=\u{7}", "9".repeat(1 << 20));
        let refusal = refusal(&vec![long.as_str(); 64]);
        assert!(
            refusal.len() < 4096 && !refusal.contains(char::is_control),
            "{} bytes",
            refusal.len()
        );
    }
}
