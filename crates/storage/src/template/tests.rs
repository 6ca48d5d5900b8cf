use super::*;

fn table(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn line(text: &str, pairs: &[(&str, &str)]) -> String {
    SiteCommand::new("field", text, table(pairs)).unwrap().unwrap().expand(&BTreeMap::new())
}

#[test]
fn lines_of_the_shipped_profile_are_expanded() {
    let known = [
        ("$DEVICE", "/dev/loop1"),
        ("$DEVICE_LIST", "/dev/loop1 /dev/loop2"),
        ("$DEVICE_NUM", "2"),
        ("$DEVICE_NUM-1", "1"),
        ("$DEVICE1", "/dev/loop1"),
        ("$VG_NAME", "b1946ac9_0_2"),
        ("$LV_NAME", "lv"),
        ("$LV_SIZE", "1048576K"),
        ("$PERCENT_VG", "33%VG"),
        ("$JOBID", "1234"),
        ("$USERID", "1001"),
        ("$GROUPID", "1002"),
        ("$MOUNT_PATH", "/mnt/nnf/3f6c2d1e-0"),
    ];
    for (text, expected) in [
        ("-o bind $DEVICE $MOUNT_PATH", "-o bind /dev/loop1 /mnt/nnf/3f6c2d1e-0"),
        ("chown $USERID:$GROUPID $MOUNT_PATH", "chown 1001:1002 /mnt/nnf/3f6c2d1e-0"),
        (
            "--addtag $JOBID $VG_NAME $DEVICE_LIST",
            "--addtag 1234 b1946ac9_0_2 /dev/loop1 /dev/loop2",
        ),
        (
            "--size $LV_SIZE --stripes $DEVICE_NUM --name $LV_NAME $VG_NAME",
            "--size 1048576K --stripes 2 --name lv b1946ac9_0_2",
        ),
        ("--extents $PERCENT_VG", "--extents 33%VG"),
        ("raid $DEVICE_NUM-1 $DEVICE_NUM", "raid 1 2"),
        ("$VG_NAME/$LV_NAME", "b1946ac9_0_2/lv"),
        ("--mkfsoptions=\"nnf:jobid=$JOBID\" x", "--mkfsoptions=\"nnf:jobid=1234\" x"),
    ] {
        assert_eq!(line(text, &known), expected);
    }
}

#[test]
fn the_variable_with_the_longest_matching_name_is_replaced() {
    let many: Vec<(String, String)> =
        (1..=16).map(|n| (format!("$DEVICE{n}"), format!("/dev/n{n}"))).collect();
    let mut known: BTreeMap<_, _> = many.into_iter().collect();
    known.insert("$DEVICE".into(), "/dev/n0".into());
    assert_eq!(
        expand("$DEVICE1 $DEVICE10 $DEVICE16 $DEVICE", &known),
        "/dev/n1 /dev/n10 /dev/n16 /dev/n0"
    );
}

#[test]
fn unknown_variables_are_left_to_bash() {
    assert_eq!(line("echo $HOME $JOBID $ $$", &[("$JOBID", "7")]), "echo $HOME 7 $ $$");
    assert_eq!(line(r"echo \$JOBID", &[("$JOBID", "7")]), r"echo \$JOBID");
    // A name without `$` is no variable, and neither is `$` alone.
    assert_eq!(line("JOBID $", &[("JOBID", "x"), ("$", "y")]), "JOBID $");
}

#[test]
fn variables_in_the_values_of_variables_are_replaced() {
    let known = [("$MOUNT_PATH", "/mnt/$JOBID/$USERID"), ("$JOBID", "j$USERID"), ("$USERID", "5")];
    assert_eq!(expand("$MOUNT_PATH", &table(&known)), "/mnt/j5/5");
    let command =
        SiteCommand::new("mount", "x $MY_PATH", table(&[("$MY_PATH", "$MOUNT_PATH/sub")]))
            .unwrap()
            .unwrap();
    assert_eq!(command.expand(&table(&[("$MOUNT_PATH", "/mnt/a")])), "x /mnt/a/sub");
}

#[test]
fn expand_prefers_the_commands_own_value_of_a_variable() {
    let command =
        SiteCommand::new("mkfs", "$DEVICE", table(&[("$DEVICE", "/dev/site")])).unwrap().unwrap();
    assert_eq!(command.expand(&table(&[("$DEVICE", "/dev/loop0")])), "/dev/site");
}

#[test]
fn the_expansion_of_cyclic_and_exponentially_growing_overrides_ends() {
    assert_eq!(expand("$A", &table(&[("$A", "a$B"), ("$B", "b$A")])), "ab$A");
    assert_eq!(expand("$A", &table(&[("$A", "$A$A")])), "$A$A");
    let bomb: Vec<(String, String)> =
        (0..26).map(|n| (format!("$V{n:02}"), format!("$V{:02}", n + 1).repeat(16))).collect();
    let expanded = expand("$V00", &bomb.into_iter().collect());
    assert!(expanded.len() < 64 * LONGEST_VALUE, "{}", expanded.len());
}

#[test]
fn hostile_values_are_quoted_as_their_place_in_the_line_requires() {
    let known =
        [("$JOBID", "1; rm -rf /"), ("$USERID", "a'b"), ("$GROUPID", "$(id)\""), ("$LIST", "")];
    assert_eq!(line("x $JOBID", &known), "x '1; rm -rf /'");
    assert_eq!(line("x \"$JOBID\" '$JOBID'", &known), "x \"1; rm -rf /\" '1; rm -rf /'");
    assert_eq!(line("x $USERID \"$USERID\"", &known), r#"x 'a'\''b' "a'b""#);
    assert_eq!(line("x $GROUPID \"$GROUPID\"", &known), r#"x '$(id)"' "\$(id)\"""#);
    assert_eq!(line("x $LIST y", &known), "x '' y");
    assert_eq!(line("x $(echo \"$JOBID\")", &known), "x $(echo \"1__rm_-rf_/\")");
}

#[test]
fn only_the_value_of_device_list_becomes_several_words() {
    assert_eq!(line("$DEVICE_LIST", &[("$DEVICE_LIST", "/dev/a /dev/b")]), "/dev/a /dev/b");
    assert_eq!(line("$DEVICE_LIST", &[("$DEVICE_LIST", "/dev/a; id")]), "'/dev/a; id'");
    assert_eq!(line("$JOBID", &[("$JOBID", "1 --force")]), "'1 --force'");
}

#[test]
fn new_returns_none_for_a_blank_line_and_refuses_unbalanced_quotes_and_control_characters() {
    for blank in ["", "  ", "\t"] {
        assert_eq!(SiteCommand::new("mkfs", blank, BTreeMap::new()), Ok(None));
    }
    let error = SiteCommand::new("xfs.mkfs", "a 'b", BTreeMap::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "xfs.mkfs: unbalanced quotes in \"a 'b\": close every ' and \" in the profile"
    );
    for broken in ["a\nb", "a\0b"] {
        let error = SiteCommand::new("mkfs", broken, BTreeMap::new()).unwrap_err();
        assert!(matches!(error, SiteCommandError::ControlCharacter { .. }), "{error}");
    }
}
