//! The rules of the file systems that Warren serves, for a site whose API has no rules.

use super::{Rule, RuleDef};

/// Name of the DWDirectiveRule with the [`shipped`] rules, and of its driver.
pub const SHIPPED_NAME: &str = "nnf";

const FILE_SYSTEM: &str = "^(raw|xfs|gfs2|lustre)$";
const CAPACITY: &str = "^\\d+(KiB|KB|MiB|MB|GiB|GB|TiB|TB)$";
const NAME: &str = "^[a-z][a-z0-9-]+$";
const CONTAINER_STORAGE: &str = "^(DW_JOB_|DW_PERSISTENT_|DW_GLOBAL_)[a-z][a-z0-9_]+$";

/// States of commands that create or mount storage.
const MOUNTING: &str = "Proposal,Setup,PreRun,PostRun,Teardown";

/// Returns the rules that Warren ships.
#[must_use]
pub fn shipped() -> Vec<Rule> {
    let storage = |uniqueness: &str, capacity: RuleDef| {
        vec![
            needed("type", FILE_SYSTEM),
            capacity,
            RuleDef { unique_within: uniqueness.to_owned(), ..needed("name", NAME) },
            text("profile", NAME),
        ]
    };
    let mut jobdw = storage("jobdw_name", needed("capacity", CAPACITY));
    jobdw.push(requires());
    let create = storage("create_persistent_name", text("capacity", CAPACITY));
    let destroy = vec![RuleDef {
        unique_within: "destroy_persistent_name".to_owned(),
        ..needed("name", NAME)
    }];
    let copy = || vec![needed("source", ""), needed("destination", ""), text("profile", NAME)];
    let mut container = vec![needed("name", NAME), needed("profile", NAME)];
    container.push(RuleDef { key: CONTAINER_STORAGE.to_owned(), ..text("", "") });
    vec![
        rule("jobdw", MOUNTING, jobdw),
        rule("create_persistent", "Proposal,Setup,Teardown", create),
        rule("destroy_persistent", "Proposal,Teardown", destroy),
        rule("persistentdw", MOUNTING, vec![needed("name", NAME), requires()]),
        rule("copy_in", "Proposal,DataIn,Teardown", copy()),
        rule("copy_out", "Proposal,DataOut,Teardown", copy()),
        rule("container", MOUNTING, container),
    ]
}

fn rule(command: &str, watch_states: &str, rule_defs: Vec<RuleDef>) -> Rule {
    Rule {
        object: SHIPPED_NAME.to_owned(),
        command: command.to_owned(),
        watch_states: watch_states.to_owned(),
        rule_defs,
        ..Rule::default()
    }
}

fn text(key: &str, pattern: &str) -> RuleDef {
    RuleDef {
        key: format!("^{key}$"),
        kind: "string".to_owned(),
        pattern: pattern.to_owned(),
        is_value_required: true,
        ..RuleDef::default()
    }
}

fn needed(key: &str, pattern: &str) -> RuleDef {
    RuleDef { is_required: true, ..text(key, pattern) }
}

fn requires() -> RuleDef {
    let patterns = ["^copy-offload$", "^user-container-auth$"].map(str::to_owned).to_vec();
    RuleDef { kind: "list-of-string".to_owned(), patterns, ..text("requires", "") }
}
