//! Compares the engine's Lustre objects with the Lustre objects that the Go controllers made.

use serde_json::{Value, json};

use super::with_profile;
use crate::{
    job::GIB,
    samples::{assert_same_shape, captured},
    site::Site,
};

/// Returns a site like the site of the samples: one rabbit, three computes, one combined target, two object targets.
fn site() -> Site {
    let mut site = Site::new(3, 1000 * GIB);
    with_profile(&mut site, &json!({"ostOptions": {"scale": 5}}));
    site
}

#[test]
fn the_lustre_breakdown_equals_that_of_the_go_controllers() {
    let recorded = captured("directivebreakdown-lustre");
    let line = recorded["spec"]["directive"].as_str().unwrap().to_owned();
    let mut site = site();
    let name = recorded["metadata"]["ownerReferences"][0]["name"].as_str().unwrap().to_owned();
    site.create(&name, &[line]);
    site.settle();
    let ours = site.get("DirectiveBreakdown", "default", &format!("{name}-0"));
    assert_eq!(ours["status"], recorded["status"]);
    assert_same_shape(ours, &recorded, &[]);
}

#[test]
fn lustre_objects_have_the_shape_of_the_go_controllers() {
    let mut site = site();
    let name = "fluxjob-4-lustre";
    site.create(name, &["#DW jobdw type=lustre capacity=100GB name=lus".to_owned()]);
    site.settle();
    site.edit("Servers", "default", "fluxjob-4-lustre-0", |object| {
        let servers = captured("servers-lustre").to_string().replace("rabbit-1", "r");
        let servers: Value = serde_json::from_str(&servers).unwrap();
        object["spec"] = servers["spec"].clone();
    });
    site.fill_computes(name, &["c1", "c2", "c3"]);
    for state in ["Setup", "DataIn", "PreRun"] {
        site.request_state_and_settle(name, state);
        assert!(site.is_ready(name, state), "{:?}", site.status_of(name));
    }
    for (kind, set) in [
        ("NnfNodeStorage", "mgtmdt"),
        ("NnfNodeStorage", "ost"),
        ("NnfNodeBlockStorage", "mgtmdt"),
        ("NnfNodeBlockStorage", "ost"),
    ] {
        let recorded = captured(&format!("{}-lustre-{set}", kind.to_lowercase()));
        let ours = site.get(kind, "r", &format!("default-{name}-0-{set}-0"));
        assert_same_shape(ours, &recorded, &[]);
        if kind == "NnfNodeStorage" {
            // The Go controllers give the name aaaaaaaa on every management target.
            let part = |object: &Value| {
                let (storage, own) =
                    (&object["spec"]["lustreStorage"], site.name_and_address(name).0);
                let text = storage.to_string().replace(&own, "aaaaaaaa");
                text.replace("rabbit-1", "r").replace("1.2.3.4@tcp", "10.0.0.1@tcp")
            };
            assert_eq!(part(ours), part(&recorded), "{set}");
            assert_eq!(ours["spec"]["capacity"], recorded["spec"]["capacity"], "{set}");
        } else {
            let sizes = |object: &Value| object["spec"].to_string().replace("rabbit-1", "r");
            assert_eq!(sizes(ours), sizes(&recorded), "{set}");
        }
    }
    for (node, end, file) in [
        ("c2", "computes", "clientmount-lustre-compute"),
        ("r", "servers", "clientmount-lustre-rabbit"),
    ] {
        let ours = site.get("ClientMount", node, &format!("default-{name}-0-{end}"));
        assert_same_shape(ours, &captured(file), &[]);
    }
    let mgt = site.get("NnfLustreMGT", "r", &format!("{name}-0"));
    // The Go controllers write an empty reference; the references of this engine have a uid.
    assert_same_shape(
        mgt,
        &captured("nnflustremgt-lustre"),
        &["fsNameStartReference", "claimList[].uid"],
    );
}
