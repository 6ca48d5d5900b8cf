use super::*;
use clap::CommandFactory;

#[test]
fn command_line_is_consistent() {
    CommandLine::command().debug_assert();
}

#[test]
fn the_flag_wait_accepts_false() {
    let line =
        CommandLine::try_parse_from(["warren", "delete", "cm", "a", "--wait=false"]).unwrap();
    let Verb::Delete(delete) = line.verb else { panic!("not delete") };
    assert!(!delete.wait);
    assert_eq!(delete.objects, ["cm", "a"]);
}
