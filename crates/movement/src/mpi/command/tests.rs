use super::*;

/// The default command of the Go data movement (nnf-dm).
const SITES: &str = "ulimit -n 2048 && mpirun --allow-run-as-root --hostfile $HOSTFILE dcp --progress 1 --uid $UID --gid $GID $SRC $DEST";

fn values() -> Values<'static> {
    Values {
        hostfile: "/etc/mpi/hostfile",
        user: 7,
        group: 8,
        source: "/a b/$UID;",
        destination: "/d",
    }
}

fn words(command: &str) -> Vec<String> {
    CommandLine::parse(command).unwrap_or_else(|error| panic!("{error}")).words(values())
}

fn error(command: &str) -> String {
    CommandLine::parse(command).unwrap_err().to_string()
}

#[test]
fn the_sites_default_is_refused_with_the_words_to_remove_and_accepted_without_them() {
    let refusal = error(SITES);
    assert!(refusal.contains("data.command \"ulimit -n 2048 && mpirun"), "{refusal}");
    let rest = "needs a shell for \"&&\", and Warren starts none: ask the administrator to remove `ulimit -n 2048 &&`";
    assert!(refusal.ends_with(rest), "{refusal}");
    assert_eq!(
        words(SITES.strip_prefix("ulimit -n 2048 && ").unwrap()),
        [
            "mpirun",
            "--hostfile",
            "/etc/mpi/hostfile",
            "dcp",
            "--progress",
            "1",
            "--uid",
            "7",
            "--gid",
            "8",
            "/a b/$UID;",
            "/d"
        ]
    );
}

#[test]
fn variables_are_replaced_inside_their_words_and_values_are_not_read_again() {
    for (command, expected) in [
        ("dcp $SRC $DEST", &["dcp", "/a b/$UID;", "/d"][..]),
        ("dcp \"$SRC\" ${DEST}", &["dcp", "/a b/$UID;", "/d"]),
        ("dcp --from=$SRC --to=${DEST}/x", &["dcp", "--from=/a b/$UID;", "--to=/d/x"]),
        ("dcp $UID:$GID $SRC$DEST", &["dcp", "7:8", "/a b/$UID;/d"]),
        (
            "dcp 'a;b *' \"c|d\" \\& a~b#c $SRC $DEST",
            &["dcp", "a;b *", "c|d", "&", "a~b#c", "/a b/$UID;", "/d"],
        ),
        (
            "mpirun --mca btl ^tcp --map-by ppr:1:node dcp $SRC $DEST",
            &[
                "mpirun",
                "--mca",
                "btl",
                "^tcp",
                "--map-by",
                "ppr:1:node",
                "dcp",
                "/a b/$UID;",
                "/d",
            ],
        ),
    ] {
        assert_eq!(words(command), expected, "{command}");
    }
}

#[test]
fn a_command_that_needs_a_shell_is_refused_with_the_part_and_the_remedy() {
    for (command, part) in [
        (
            "dcp $SRC $DEST; rm -r $SRC",
            "for \";\", and Warren starts none: ask the administrator to write a single command",
        ),
        (
            "a && dcp $SRC $DEST",
            "for \"&&\", and Warren starts none: ask the administrator to write a single command",
        ),
        ("dcp $SRC $DEST || true", "for \"||\""),
        ("dcp $SRC $DEST | tee log", "for \"|\""),
        ("dcp $SRC $DEST > log", "for \">\""),
        ("dcp $SRC $DEST 2>&1", "for \">\""),
        ("dcp <list $SRC $DEST", "for \"<\""),
        ("(dcp $SRC $DEST)", "for \"(\""),
        ("dcp $SRC $DEST &", "for \"&\""),
        ("dcp $SRC\n$DEST", "for \"\\n\""),
        ("dcp `id -u` $SRC $DEST", "for \"`\""),
        ("dcp \"`id -u`\" $SRC $DEST", "for \"`\""),
        ("dcp $(id -u) $SRC $DEST", "for \"$(\""),
        ("dcp \"$(id -u)\" $SRC $DEST", "for \"$(\""),
        ("dcp $ $SRC $DEST", "for \"$ \""),
        ("dcp ${SRC:-x} $DEST", "for \"${\""),
        ("dcp $SRC/* $DEST", "for \"*\""),
        ("dcp {a,b} $SRC $DEST", "for \"{\""),
        ("dcp ~/x $SRC $DEST", "for \"~\""),
        ("dcp $SRC $DEST # all", "for \"#\""),
        (
            "OMP_NUM_THREADS=1 dcp $SRC $DEST",
            "for \"OMP_NUM_THREADS=\", and Warren starts none: ask the administrator to remove `OMP_NUM_THREADS=`",
        ),
        ("dcp $HOME $SRC $DEST", "has the variable $HOME, and Warren knows only $HOSTFILE"),
        ("dcp $SRC2 $DEST", "has the variable $SRC2"),
        ("dcp '$SRC' $DEST", "neither in single quotes nor behind a backslash"),
        ("dcp \\$SRC $DEST", "neither in single quotes nor behind a backslash"),
        ("dcp $SRC", "lacks the variable $DEST"),
        ("dcp $DEST", "lacks the variable $SRC"),
        ("dcp \"$SRC $DEST", "a quotation mark without its end"),
        ("", "is empty"),
        ("  ", "is empty"),
    ] {
        let refusal = error(command);
        assert!(refusal.contains(part), "{command}: {refusal}");
    }
}
