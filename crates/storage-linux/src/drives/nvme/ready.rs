//! Brings up virtual functions. After a power cycle or a reboot they do not exist, or are
//! offline and without resources.

use super::{
    admin::{Resource, Virtualization},
    hosts::FUNCTIONS,
    wire::SecondaryController,
};

/// Number of queues, and of interrupts, that each virtual function gets.
const EACH: u16 = 2;

#[derive(Debug, Clone)]
pub(super) struct Functions {
    /// Number of virtual functions that the PCI function supports.
    pub(super) possible: u16,
    /// Number of virtual functions that are enabled.
    pub(super) enabled: u16,
    /// Whether the physical function holds resources that the virtual functions need.
    pub(super) hoarded: bool,
    /// Whether the virtual functions have their resources from the factory.
    pub(super) preset: bool,
    pub(super) physical: u16,
    pub(super) secondaries: Vec<SecondaryController>,
}

/// One step in bringing virtual functions online.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Virtualize {
        controller: u16,
        action: Virtualization,
    },
    /// Resets the controller. The resources that `Virtualize` takes from the physical function become free only with
    /// this reset.
    Reset,
    /// Enables this many virtual functions without binding drivers: a driver cannot start an offline controller.
    Enable(u16),
}

/// Returns the steps that are still to be taken; none when every virtual function that a chassis needs is online.
pub(super) fn bring_up(functions: &Functions) -> Vec<Step> {
    let wanted = functions.possible.min(FUNCTIONS);
    let listed = functions.secondaries.iter();
    let offline: Vec<_> = listed
        .filter(|function| {
            (1..=wanted).contains(&function.function.get()) && function.state & 1 == 0
        })
        .collect();
    if wanted == 0 || (offline.is_empty() && functions.enabled >= wanted) {
        return Vec::new();
    }
    let virtualize = |controller, action| Step::Virtualize { controller, action };
    let resources = [Resource::Queues, Resource::Interrupts];
    let mut steps = Vec::new();
    // A reset of the primary controller also stops the secondary controllers: do not reset it while one may be in use.
    if functions.hoarded && !functions.preset && functions.enabled == 0 {
        let give = |resource| virtualize(functions.physical, Virtualization::Primary(resource, 0));
        steps.extend(resources.map(give));
        steps.push(Step::Reset);
    }
    if functions.enabled == 0 {
        steps.push(Step::Enable(wanted));
    }
    for function in offline {
        let controller = function.controller.get();
        let has = [function.queues.get(), function.interrupts.get()];
        let lacks = resources.into_iter().zip(has).filter(|(_, has)| *has != EACH);
        if !functions.preset {
            steps.extend(lacks.map(|(resource, _)| {
                virtualize(controller, Virtualization::Assign(resource, EACH))
            }));
        }
        steps.push(virtualize(controller, Virtualization::Online));
    }
    steps
}

/// Returns the number of the first offline virtual function among those that a chassis needs.
pub(super) fn first_offline(listed: &[SecondaryController]) -> Option<u16> {
    let mut needed =
        listed.iter().filter(|function| (1..=FUNCTIONS).contains(&function.function.get()));
    needed.find(|function| function.state & 1 == 0).map(|function| function.function.get())
}

#[cfg(test)]
mod tests {
    use zerocopy::FromZeros;

    use super::*;

    fn function(number: u16, online: bool, has: u16) -> SecondaryController {
        let mut entry = SecondaryController::new_zeroed();
        entry.controller = number.into();
        entry.function = number.into();
        entry.state = u8::from(online);
        (entry.queues, entry.interrupts) = (has.into(), has.into());
        entry
    }

    fn functions(enabled: u16, hoarded: bool, each: (bool, u16)) -> Functions {
        let secondaries = (1..=2).map(|number| function(number, each.0, each.1)).collect();
        Functions { possible: 2, enabled, hoarded, preset: false, physical: 0, secondaries }
    }

    fn assign(controller: u16) -> [Step; 3] {
        [
            Virtualization::Assign(Resource::Queues, 2),
            Virtualization::Assign(Resource::Interrupts, 2),
            Virtualization::Online,
        ]
        .map(|action| Step::Virtualize { controller, action })
    }

    #[test]
    fn bring_up_after_a_power_cycle_does_all_steps_in_order() {
        let give = [Resource::Queues, Resource::Interrupts].map(|resource| Step::Virtualize {
            controller: 0,
            action: Virtualization::Primary(resource, 0),
        });
        let expected =
            [&give[..], &[Step::Reset, Step::Enable(2)], &assign(1), &assign(2)].concat();
        assert_eq!(bring_up(&functions(0, true, (false, 0))), expected);
    }

    #[test]
    fn bring_up_does_only_the_missing_steps() {
        assert!(bring_up(&functions(2, true, (true, 2))).is_empty(), "all functions are online");
        let expected = [&[Step::Enable(2)][..], &assign(1), &assign(2)].concat();
        assert_eq!(
            bring_up(&functions(0, false, (false, 0))),
            expected,
            "after a warm reboot, when no function is enabled"
        );
        let mut one_offline = functions(2, false, (true, 2));
        one_offline.secondaries[1] = function(2, false, 0);
        assert_eq!(bring_up(&one_offline), assign(2));
    }

    #[test]
    fn bring_up_keeps_preset_resources_and_does_nothing_for_a_drive_without_functions() {
        let mut preset = functions(0, true, (false, 4));
        preset.preset = true;
        let online = |controller| Step::Virtualize { controller, action: Virtualization::Online };
        assert_eq!(bring_up(&preset), [Step::Enable(2), online(1), online(2)]);
        let none =
            Functions { possible: 0, secondaries: Vec::new(), ..functions(0, true, (false, 0)) };
        assert!(bring_up(&none).is_empty());
    }

    #[test]
    fn bring_up_enables_at_most_seventeen_functions() {
        let mut many = functions(0, false, (false, 0));
        many.possible = 64;
        many.secondaries = (1..=64).map(|number| function(number, false, 0)).collect();
        let steps = bring_up(&many);
        assert_eq!((steps[0], steps.len()), (Step::Enable(17), 1 + 17 * 3));
    }
}
