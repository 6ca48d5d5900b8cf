//! A million random inputs: no input panics, and the result of an accepted input is consistent.

use directive::{Command, Directive, Ruleset, check, hostlist, job_id, shipped};

/// Pieces of directives: most random lines of them are nearly valid.
const PIECES: &[&str] = &[
    "#DW",
    "#DW ",
    " ",
    "\u{a0}",
    "\t",
    "jobdw",
    "create_persistent",
    "destroy_persistent",
    "persistentdw",
    "copy_in",
    "copy_out",
    "container",
    "type=",
    "capacity=",
    "name=",
    "profile=",
    "requires=",
    "source=",
    "destination=",
    "xfs",
    "lustre",
    "raw",
    "gfs2",
    "10GiB",
    "1.1PB",
    "18446744073709551616",
    "k",
    "%",
    "TB",
    "foo",
    "a-b",
    "$DW_JOB_",
    "$DW_JOB",
    "$DW_PERSISTENT_",
    "DW_JOB_x=",
    "DW_GLOBAL_y=",
    "/lus/a",
    "/",
    "..",
    "copy-offload",
    ",",
    "=",
    "==",
    "",
    "ü",
    "\u{0}",
    "\u{1b}",
    "[",
    "]",
    "[1-3]",
    "[3-1]",
    "-",
    "0",
    "9",
    "f2Dd",
    "ƒ",
];

fn text(random: &mut fastrand::Rng) -> String {
    let pieces = random.usize(0..12);
    let piece = |random: &mut fastrand::Rng| match random.u8(0..20) {
        0 => random.char(..).to_string(),
        _ => (*random.choice(PIECES).unwrap_or(&"")).to_owned(),
    };
    (0..pieces).map(|_| piece(random)).collect()
}

/// Returns a line with a valid beginning, so that the deeper checks are reached.
fn line(random: &mut fastrand::Rng) -> String {
    if random.bool() {
        format!("#DW {} {}", random.choice(PIECES).unwrap_or(&""), text(random))
    } else {
        text(random)
    }
}

#[test]
fn a_million_inputs_cause_no_panic() {
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let ruleset = Ruleset::new(shipped());
    let (mut parsed, mut understood, mut refused) = (0_u32, 0_u32, 0_u32);
    // Each round parses two lines separately and together, and a text with the seven parsers of scalars.
    for _ in 0..100_000 {
        let lines = [line(&mut random), line(&mut random)];
        for line in &lines {
            let Ok(directive) = line.parse::<Directive>() else { continue };
            parsed += 1;
            assert_eq!(
                directive.to_string().parse().as_ref(),
                Ok(&directive),
                "seed {seed}: {line:?}"
            );
            understood += u32::from(Command::try_from(&directive).is_ok());
        }
        match ruleset.check(&lines) {
            Ok(directives) => {
                let _ = check::workflow(&lines, &directives, &check::Known::default());
            }
            Err(problems) => {
                refused += 1;
                assert!(
                    !problems.0.is_empty() && !problems.to_string().is_empty(),
                    "seed {seed}: {lines:?}"
                );
            }
        }
        scalars(&text(&mut random), seed);
    }
    // The generator must reach the code that it was written for.
    assert!(
        parsed > 10_000 && understood > 10 && refused > 10_000,
        "{parsed} {understood} {refused}"
    );
}

/// Parses a text with each parser of single texts.
fn scalars(text: &str, seed: u64) {
    let _ = directive::capacity::bytes(text);
    let _ = text.parse::<directive::capacity::Factor>();
    let _ = text.parse::<directive::capacity::Padding>();
    let _ = text.parse::<directive::location::Location>();
    let _ = directive::split(text);
    if let Ok(hosts) = hostlist::expand(text) {
        assert_eq!(
            hostlist::expand(&hostlist::compress(&hosts)).as_ref(),
            Ok(&hosts),
            "seed {seed}: {text:?}"
        );
    }
    if let Ok(id) = job_id::number(text) {
        assert_eq!(job_id::number(&id.to_string()), Ok(id), "seed {seed}: {text:?}");
    }
}
