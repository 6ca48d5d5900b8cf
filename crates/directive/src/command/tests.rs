use super::*;
use crate::directive::Directive;

fn command(line: &str) -> Result<Command, CommandFault> {
    Command::try_from(&line.parse::<Directive>().unwrap())
}

#[test]
fn each_command_is_read_with_its_typed_arguments() {
    assert_eq!(
        command("#DW jobdw name=foo type=gfs2 capacity=10GiB requires=copy-offload,x"),
        Ok(Command::Jobdw(Jobdw {
            file_system: FileSystem::Gfs2,
            capacity: 10 << 30,
            name: "foo".to_owned(),
            profile: None,
            requires: vec!["copy-offload".to_owned(), "x".to_owned()],
        }))
    );
    assert_eq!(
        command("#DW create_persistent name=foo type=lustre profile=p"),
        Ok(Command::CreatePersistent(CreatePersistent {
            file_system: FileSystem::Lustre,
            capacity: None,
            name: "foo".to_owned(),
            profile: Some("p".to_owned()),
        }))
    );
    assert_eq!(
        command("#DW destroy_persistent name=foo"),
        Ok(Command::DestroyPersistent(DestroyPersistent { name: "foo".to_owned() }))
    );
    assert_eq!(
        command("#DW persistentdw name=foo"),
        Ok(Command::Persistentdw(Persistentdw { name: "foo".to_owned(), requires: Vec::new() }))
    );
    let ends = || (Location::Global("/lus/a".to_owned()), "$DW_JOB_foo/".parse().unwrap());
    let (source, destination) = ends();
    assert_eq!(
        command("#DW copy_in source=/lus/a destination=$DW_JOB_foo/"),
        Ok(Command::CopyIn(Copy { source, destination, profile: None }))
    );
    let (destination, source) = ends();
    assert_eq!(
        command("#DW copy_out source=$DW_JOB_foo/ destination=/lus/a"),
        Ok(Command::CopyOut(Copy { source, destination, profile: None }))
    );
    let storage = |variable, key: &str, value: &str| StorageArgument {
        variable,
        key: key.to_owned(),
        value: value.to_owned(),
    };
    assert_eq!(
        command("#DW container name=c profile=p DW_JOB_a=foo DW_PERSISTENT_b=bar DW_GLOBAL_c=/lus"),
        Ok(Command::Container(Container {
            name: "c".to_owned(),
            profile: "p".to_owned(),
            storages: vec![
                storage(Variable::Job, "DW_JOB_a", "foo"),
                storage(Variable::Persistent, "DW_PERSISTENT_b", "bar"),
                storage(Variable::Global, "DW_GLOBAL_c", "/lus"),
            ],
        }))
    );
}

/// The rules of a site may accept arguments that the commands do not accept.
#[test]
fn an_invalid_argument_is_refused_with_the_valid_values() {
    for (line, expected) in [
        ("#DW swap a=b", "command \"swap\" is unknown; write one of jobdw,"),
        ("#DW jobdw type=xfs name=foo", "argument capacity is missing; add capacity=VALUE"),
        ("#DW jobdw type=xfs capacity=1GiB", "argument name is missing; add name=VALUE"),
        (
            "#DW jobdw type=nfs capacity=1GiB name=foo",
            "argument type=nfs: there is no such type of storage; write raw, xfs, gfs2 or lustre",
        ),
        ("#DW jobdw type=xfs capacity=0GiB name=foo", "argument capacity=0GiB: a size of 0;"),
        (
            "#DW jobdw type=xfs capacity=9999999TiB name=foo",
            "argument capacity=9999999TiB: more than the 2^63 - 1 bytes",
        ),
        (
            "#DW jobdw type=xfs capacity=1k name=foo",
            "argument capacity=1k: not a size; write a number and a unit",
        ),
        (
            "#DW jobdw type=xfs capacity=1GiB name=foo colour=red",
            "argument colour=red: jobdw has no such argument; remove it",
        ),
        (
            "#DW copy_in source=/lus/$(reboot) destination=$DW_JOB_a",
            "argument source=/lus/$(reboot): the character '$' has a special meaning in shells",
        ),
        (
            "#DW copy_out source=$DW_JOB_a destination=here",
            "argument destination=here: not a source or destination;",
        ),
        (
            "#DW container name=c profile=p DW_JOB_=x",
            "argument DW_JOB_=x: container has no such argument; remove it",
        ),
    ] {
        let refusal = command(line).unwrap_err().to_string();
        assert!(refusal.starts_with(expected), "{line}: {refusal}");
    }
}
