#[path = "matrix.rs"]
mod matrix;

use matrix::MATRIX;

use super::*;

/// Returns the path, after a copy, of the source's `job/data.out` or `job/job2/data3.out`.
fn path_after_copy(source: &str, expected: &str, layout: &Layout) -> String {
    let original =
        if expected.ends_with("data3.out") { "/job/job2/data3.out" } else { "/job/data.out" };
    let copied = source.trim_end_matches('/');
    let rest = original.strip_prefix(copied).unwrap().trim_start_matches('/');
    let parts = [Some(&*layout.directory), layout.name.as_deref(), Some(rest)];
    parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
}

#[test]
fn each_path_of_the_go_data_movement_matrix_is_copied_to_the_expected_path() {
    for (id, source, destination, expected) in MATRIX {
        let kind = if source.ends_with("data.out") { Kind::File } else { Kind::Directory };
        let destination_kind = if destination.trim_end_matches('/') == "dest" {
            Kind::Directory
        } else {
            Kind::Absent
        };
        for index in [Some("rabbit-1-0"), None] {
            let layout = layout((source, kind), (destination, destination_kind), index).unwrap();
            let star = index.map_or(String::new(), |index| format!("{index}/"));
            let expected = expected.replace("*/", &star);
            assert_eq!(path_after_copy(source, &expected, &layout), expected, "{id} {index:?}");
        }
    }
}

#[test]
fn a_missing_source_a_file_with_a_trailing_slash_and_a_directory_onto_a_file_are_refused() {
    for (source, destination, error) in [
        (("/a", Kind::Absent), ("b", Kind::Directory), LayoutError::NoSource),
        (("/a/", Kind::File), ("b", Kind::Directory), LayoutError::FileWithSlash),
        (("/a", Kind::Directory), ("b", Kind::File), LayoutError::DirectoryOntoFile),
    ] {
        assert_eq!(layout(source, destination, None), Err(error));
    }
}

#[test]
fn a_file_can_be_copied_onto_a_file_and_into_the_root() {
    let layout = |to, kind| layout(("/in/a.dat", Kind::File), (to, kind), None).unwrap();
    let at = |directory: &str, name: &str| Layout {
        directory: directory.to_owned(),
        name: Some(name.to_owned()),
    };
    assert_eq!(layout("/b/c", Kind::File), at("b", "c"));
    assert_eq!(layout("", Kind::Directory), at("", "a.dat"));
    assert_eq!(layout("/", Kind::Directory), at("", "a.dat"));
    assert_eq!(layout("/b", Kind::Absent), at("", "b"));
}
