//! Brings workflows with the directives of the user documentation from Proposal to Teardown.

use crate::site::{Site, at};

const COMPUTES: [&str; 2] = ["c1", "c2"];

/// Returns the documented directives with this command, in the order of the page.
fn documented_directives(command: &str) -> Vec<String> {
    let page = include_str!("../../../../docs/use/directives.md");
    let lines = page.lines().filter_map(|line| line.strip_prefix("    "));
    let directives = lines.filter(|line| line.starts_with(&format!("#DW {command} ")));
    // This site has no presets.
    directives.filter(|line| !line.contains(" preset=")).map(str::to_owned).collect()
}

#[test]
fn documented_jobdw_directives_work() {
    let lines = documented_directives("jobdw");
    for kind in ["xfs", "gfs2", "raw", "lustre"] {
        let has_kind = |line: &&String| line.contains(&format!("type={kind} "));
        assert_eq!(lines.iter().filter(has_kind).count(), 1, "{kind}: {lines:?}");
    }
    for line in lines {
        let mut site = Site::new(2, 1 << 50);
        site.bring("w", &[line], "Teardown", &COMPUTES);
        site.remove("w");
    }
}

#[test]
fn documented_persistent_directives_work() {
    let mut site = Site::new(2, 1 << 50);
    for command in ["create_persistent", "persistentdw", "destroy_persistent"] {
        let lines = documented_directives(command);
        assert_eq!(lines.len(), 1, "{lines:?}");
        site.bring("w", &lines, "Teardown", &COMPUTES);
        site.delete(&at("Workflow", "default", "w"));
        site.settle();
    }
    site.assert_clean();
}
