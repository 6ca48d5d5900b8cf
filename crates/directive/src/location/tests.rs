use super::*;

fn inside(name: &str, path: &str) -> Inside {
    Inside { name: name.to_owned(), path: path.to_owned() }
}

#[test]
fn variables_split_into_name_and_path() {
    for (text, name, path) in [
        ("$DW_JOB_hello", "hello", ""),
        ("$DW_JOB_hi_there/", "hi-there", "/"),
        ("$DW_JOB_a_b/p/q/", "a-b", "/p/q/"),
        ("$DW_JOB_my-fs/x=y", "my-fs", "/x=y"),
    ] {
        assert_eq!(text.parse(), Ok(Location::Job(inside(name, path))), "{text}");
        let persistent = text.replace("JOB", "PERSISTENT");
        assert_eq!(
            persistent.parse(),
            Ok(Location::Persistent(inside(name, path))),
            "{persistent}"
        );
    }
    assert_eq!("/lus/x/".parse(), Ok(Location::Global("/lus/x/".to_owned())));
}

#[test]
fn a_text_that_is_not_a_location_or_lacks_the_storages_name_is_refused() {
    for text in ["$DW_JOB", "$DW_JOB_", "$DW_JOB/x", "$DW_JOB_/x"] {
        assert_eq!(text.parse::<Location>(), Err(LocationError::NoName("$DW_JOB")), "{text}");
    }
    for text in ["", "relative/path", "~/x", "$HOME/x", "$DW_JOBS", "$dw_job_x"] {
        assert_eq!(text.parse::<Location>(), Err(LocationError::NotALocation), "{text}");
    }
}

#[test]
fn characters_with_a_meaning_for_shells_are_refused() {
    for character in SHELL.chars().chain("\n\t \u{1b}\u{a0}".chars()) {
        for text in [
            format!("/lus/a{character}b"),
            format!("$DW_JOB_a/{character}"),
            format!("$DW_JOB_a{character}"),
        ] {
            assert_eq!(text.parse::<Location>(), Err(LocationError::Shell(character)), "{text:?}");
        }
    }
    assert!("/lus/ü/a-b_c.d+e,f:g@h%i~#^=".parse::<Location>().is_ok());
}

#[test]
fn parent_directories_are_refused() {
    for text in ["/lus/../etc/passwd", "$DW_JOB_a/..", "$DW_PERSISTENT_a/x/../../y"] {
        assert_eq!(text.parse::<Location>(), Err(LocationError::Parent), "{text}");
    }
    assert!("/lus/a..b/...".parse::<Location>().is_ok());
}

#[test]
fn a_path_is_beneath_a_root_only_at_a_component_boundary() {
    for (path, root, expected) in [
        ("/lus/fs1", "/lus/fs1", true),
        ("/lus/fs1/", "/lus/fs1", true),
        ("/lus/fs1/a", "/lus/fs1/", true),
        ("/lus/fs10/a", "/lus/fs1", false),
        ("/lus", "/lus/fs1", false),
        ("/anything", "/", true),
    ] {
        assert_eq!(is_beneath(path, root), expected, "{path} {root}");
    }
}
