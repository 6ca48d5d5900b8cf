//! The directives in the documentation for users live.

use crate::site::{Site, at};

const COMPUTES: [&str; 2] = ["c1", "c2"];

/// Those of a command, in the page's order.
fn documented(command: &str) -> Vec<String> {
    let page = include_str!("../../../../docs/use/directives.md");
    let lines = page.lines().filter_map(|line| line.strip_prefix("    "));
    let of = lines.filter(|line| line.starts_with(&format!("#DW {command} ")));
    of.map(str::to_owned).collect()
}

#[test]
fn storage_for_a_job_is_made_and_removed_as_the_page_says() {
    let lines = documented("jobdw");
    for kind in ["xfs", "gfs2", "raw", "lustre"] {
        let of = |line: &&String| line.contains(&format!("type={kind} "));
        assert_eq!(lines.iter().filter(of).count(), 1, "{kind}: {lines:?}");
    }
    for line in lines {
        let mut site = Site::new(2, 1 << 50);
        site.bring("w", &[line], "Teardown", &COMPUTES);
        site.remove("w");
    }
}

#[test]
fn persistent_storage_is_made_used_and_destroyed_as_the_page_says() {
    let mut site = Site::new(2, 1 << 50);
    for command in ["create_persistent", "persistentdw", "destroy_persistent"] {
        let lines = documented(command);
        assert_eq!(lines.len(), 1, "{lines:?}");
        site.bring("w", &lines, "Teardown", &COMPUTES);
        site.delete(&at("Workflow", "default", "w"));
        site.settle();
    }
    site.is_clean();
}
