//! The cases of the Go data movement's test matrix, on a real XFS.

use std::fs;

use movement::report::Outcome;

use crate::{site::Site, trees};

#[path = "../../../crates/movement/src/layout/matrix.rs"]
mod matrix;

const CONTENT: [(&str, &str); 3] =
    [("data.out", "first"), ("data2.out", "second"), ("job2/data3.out", "third")];

/// Creates the source of all cases.
fn plant(site: &Site) {
    fs::create_dir_all(site.source().join("job/job2")).unwrap();
    for (path, content) in CONTENT {
        fs::write(site.source().join("job").join(path), content).unwrap();
    }
    trees::own(&site.source());
}

#[test]
fn each_path_of_the_go_data_movement_matrix_is_copied_to_the_expected_path() {
    let Some(site) = Site::new(512 << 20) else { return };
    plant(&site);
    for (id, source, destination, expected) in matrix::MATRIX {
        for index in [Some("rabbit-1-0"), None] {
            let case = format!("{id}-{}", index.unwrap_or("none"));
            fs::create_dir_all(site.target(&case).join("dest")).unwrap();
            trees::own(&site.target(&case));
            let ended = site.copy(source, &format!("/{case}/{destination}"), index);
            assert_eq!((ended.outcome, ended.progress.failed), (Outcome::Done, 0), "{case}");
            let star = index.map_or(String::new(), |index| format!("{index}/"));
            let file = site.target(&case).join(expected.replace("*/", &star));
            let content = if expected.ends_with("data3.out") { "third" } else { "first" };
            let found = fs::read_to_string(&file);
            assert_eq!(found.ok().as_deref(), Some(content), "{case}: {}", file.display());
        }
    }
}
