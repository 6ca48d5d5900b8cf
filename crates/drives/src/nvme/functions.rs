//! Reads and starts the virtual functions of a drive. `storage::plan::bring_up` plans which of these changes a drive
//! needs.

use super::{
    admin::{Admin, AdminError, Resource, Virtualization},
    hosts::FUNCTIONS,
    wire::SecondaryController,
};

/// Number of queues, and of interrupts, that each virtual function gets.
const EACH: u16 = 2;

const RESOURCES: [Resource; 2] = [Resource::Queues, Resource::Interrupts];

/// Why a virtual function was not started.
pub type StartError = Box<dyn std::error::Error + Send + Sync>;

/// Returns the offline virtual functions among those that a chassis needs.
pub fn offline(listed: &[SecondaryController]) -> impl Iterator<Item = &SecondaryController> {
    listed.iter().filter(|function| {
        (1..=FUNCTIONS).contains(&function.function.get()) && function.state & 1 == 0
    })
}

pub fn offline_numbers(listed: &[SecondaryController]) -> Vec<u16> {
    offline(listed).map(|function| function.function.get()).collect()
}

/// Takes all flexible queues and interrupts from the physical function, whose CNTLID is `physical`, and resets the
/// controller.
pub fn free_resources(admin: &Admin, physical: u16) -> Result<(), AdminError> {
    for resource in RESOURCES {
        admin.virtualize(physical, Virtualization::Primary(resource, 0))?;
    }
    admin.reset()
}

/// Gives those of the virtual functions `numbers` that are offline the resources that they lack, unless these are
/// `preset`, and brings them online. Calls `reset` for each function before it comes online.
pub fn start_offline(
    admin: &Admin,
    listed: &[SecondaryController],
    numbers: &[u16],
    preset: bool,
    reset: impl Fn(&SecondaryController) -> Result<(), StartError>,
) -> Result<(), StartError> {
    let wanted = offline(listed).filter(|function| numbers.contains(&function.function.get()));
    for function in wanted {
        let controller = function.controller.get();
        let has = [function.queues.get(), function.interrupts.get()];
        for (resource, has) in RESOURCES.into_iter().zip(has) {
            if !preset && has != EACH {
                admin.virtualize(controller, Virtualization::Assign(resource, EACH))?;
            }
        }
        reset(function)?;
        admin.virtualize(controller, Virtualization::Online)?;
    }
    Ok(())
}
