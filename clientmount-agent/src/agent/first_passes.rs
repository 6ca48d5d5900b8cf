//! Plans what an agent would do first after its start, and changes nothing.

use api::ClientMount;
use proto::v1::ObjectPlan;
use storage::{ConvergeError, Converger, Desired, Step};

use super::objects::Objects;
use agent::{
    desired::MountUnits,
    error::Failure,
    received::ReceivedMount,
    reconcile::{Work, operator_text, plan},
    site::Site,
};

/// Returns the plans of an agent that finds the records `earlier` and receives these objects: for the clean-up, and for
/// each object.
pub fn plans(
    converger: &Converger,
    site: &Site,
    earlier: Vec<Vec<ClientMount>>,
    received: Vec<ReceivedMount>,
) -> Vec<ObjectPlan> {
    let mut objects = Objects::new(site.clone(), earlier);
    objects.begin();
    for object in received {
        objects.store(object);
    }
    objects.end_list();
    let node = ObjectPlan {
        kind: "Node".to_owned(),
        name: site.node.to_string(),
        ..ObjectPlan::default()
    };
    let mut plans = vec![plan_clean_up(converger, &objects, node)];
    for uid in objects.uids() {
        let (Some(work), Some((object, _))) = (objects.work(&uid), objects.get(&uid)) else {
            continue;
        };
        let (steps, rejection) = plan_work(converger, &work);
        plans.push(ObjectPlan {
            kind: "ClientMount".to_owned(),
            namespace: object.namespace.clone(),
            name: object.name.clone(),
            steps,
            rejection,
            waiting: String::new(),
        });
    }
    plans
}

/// Plans the removal of mounts that no object asks for.
fn plan_clean_up(converger: &Converger, objects: &Objects, node: ObjectPlan) -> ObjectPlan {
    let Some(keep) = objects.possible_paths() else {
        let waiting = "waits with the clean-up of unwanted mounts: an object cannot be read";
        return ObjectPlan { waiting: waiting.to_owned(), ..node };
    };
    match converger.plan(&Desired::OnlyMounts(keep)) {
        Ok(steps) => ObjectPlan { steps: steps.iter().map(Step::to_string).collect(), ..node },
        Err(error) => ObjectPlan { rejection: text(&error), ..node },
    }
}

fn text(error: &ConvergeError) -> String {
    Failure::of_convergence(error).debug
}

/// Returns the steps for an object, dropped mounts first, and the reason why the agent would refuse it.
fn plan_work(converger: &Converger, work: &Work) -> (Vec<String>, String) {
    let (mut steps, mut rejection) = (Vec::new(), String::new());
    let mut add = |units: &MountUnits| match plan(converger, units) {
        Ok(planned) => steps.extend(planned.iter().map(ToString::to_string)),
        Err(failures) => rejection = operator_text(&failures),
    };
    work.dropped.iter().filter_map(|(_, units)| units.as_ref().ok()).for_each(&mut add);
    match &work.units {
        Ok(units) => add(units),
        Err(outcome) => rejection = operator_text(&outcome.failures),
    }
    (steps, rejection)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use agent::{
        desired::{desired, no_references},
        reconcile::converge,
        site::Side,
        testing::{Chassis, profile, site},
    };
    use storage::fake::FakeHost;

    use super::*;

    #[test]
    fn mounts_that_no_object_asks_for_are_removed_first() {
        let chassis = Chassis::new(2);
        let (unwanted, wanted) = (chassis.object(0), chassis.object(1));
        let site = site(&wanted, Side::Compute);
        let converger = Converger::new(Arc::<FakeHost>::clone(&chassis.compute));
        let units = desired(&unwanted, Ok(&profile()), &no_references, &site).unwrap();
        assert!(converge(&converger, &units).is_done());
        let applied = chassis.compute.applied().len();
        let received = vec![ReceivedMount::new(wanted, Ok(profile()))];
        let plans = plans(&converger, &site, Vec::new(), received);
        let kinds: Vec<_> = plans.iter().map(|plan| plan.kind.as_str()).collect();
        assert_eq!(kinds, ["Node", "ClientMount"]);
        assert!(plans[0].steps[0].starts_with("unmount /mnt/nnf/job-0"), "{plans:#?}");
        assert_eq!(plans[1].steps[0], "create mount point /mnt/nnf/job-1");
        assert_eq!(chassis.compute.applied().len(), applied);
    }

    #[test]
    fn the_mounts_of_an_object_that_the_api_lacks_are_unmounted_by_its_record() {
        let chassis = Chassis::new(1);
        let object = chassis.object(0);
        let site = site(&object, Side::Compute);
        let converger = Converger::new(Arc::<FakeHost>::clone(&chassis.compute));
        let units = desired(&object, Ok(&profile()), &no_references, &site).unwrap();
        assert!(converge(&converger, &units).is_done());
        let plans = plans(&converger, &site, vec![vec![object]], Vec::new());
        assert!(plans[0].steps.is_empty(), "{plans:#?}");
        assert!(plans[1].steps[0].starts_with("unmount /mnt/nnf/job-0"), "{plans:#?}");
    }
}
