//! Container directives that Proposal refuses, and the messages that users then read.

use api::Severity;
use workflow::{
    execute::Refusal,
    plan::plan_key,
    progress::Outcome,
    world::{Key, World},
};

use super::{lines, site};

/// A name is taken, or a right or a quota is missing: the API refuses the change each time until an administrator acts.
#[test]
fn a_repeated_refusal_of_the_api_is_in_the_status() {
    let mut site = site();
    site.bring_towards("w", &lines("gfs2"), "DataIn");
    site.request_state("w", "PreRun");
    while !site.plan_all().iter().any(|change| change.to_string().starts_with("create Job")) {
        assert!(site.step(|all| (0..all).collect()), "no Job is ever planned");
    }
    let key = Key::Workflow(("default".to_owned(), "w".to_owned()));
    let refusals = || {
        let text = r#"create Job default/w-r: jobs.batch "w-r" already exists"#.to_owned();
        vec![Refusal { text, is_final: false }]
    };
    let mut world = site.world();
    let outcome = |world: &World| plan_key(world, &key, site.now()).outcomes.pop();
    assert!(world.set_refused(&key, refusals()), "the refusal is new");
    assert_eq!(
        outcome(&world),
        Some(Outcome::Working),
        "after the first refusal the engine plans again, because its watch may deliver the object"
    );
    assert!(!world.set_refused(&key, refusals()), "the refusal is known");
    let Some(Outcome::Failed(error)) = outcome(&world) else { panic!("{:?}", outcome(&world)) };
    assert_eq!(error.severity, Severity::Major, "an administrator may remove the cause");
    let message = error.user_message.unwrap();
    assert!(message.starts_with("create Job default/w-r: ") && message.ends_with("tries again"));
    world.set_refused(&key, Vec::new());
    assert_eq!(outcome(&world), Some(Outcome::Working));
    // An object that breaks a rule of the API stays refused.
    let invalid =
        || vec![Refusal { text: "create Job default/w-r: invalid".to_owned(), is_final: true }];
    world.set_refused(&key, invalid());
    world.set_refused(&key, invalid());
    let Some(Outcome::Failed(error)) = outcome(&world) else { panic!("{:?}", outcome(&world)) };
    assert_eq!(error.severity, Severity::Fatal);
    assert_eq!(error.user_message.as_deref(), Some("create Job default/w-r: invalid"));
}
