//! Brings up a drive behind the switches, and opens its admin queue.

use std::{sync::Arc, time::Duration};

use log::info;
use storage::desired::{Endpoint, Nqn};

use super::{
    super::{
        admin::{Admin, Virtualization},
        hosts::quirks,
        physical::{Fault, in_one_line},
        ready::{Functions as Virtual, Step, bring_up, first_offline},
        wire::SecondaryController,
    },
    bindings::{SlotError, missing_bindings},
    command::Command,
    dump::{Functions, Plugged, plugged_at},
    register,
    switch::Switch,
    topology::{Slot, seat},
    tunnel::{Patience, Tunnel},
};
use crate::busy::pause_for;

/// Times to wait during the access to a drive.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    pub(super) tunnel: Patience,
    /// Time after its reset in which a function cannot be used (PCI Express Base Specification, 6.6.2).
    pub(super) reset: Duration,
    /// Maximum age at which the last scan of a switch is used instead of a new scan.
    pub(super) fresh: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            tunnel: Patience::default(),
            reset: Duration::from_millis(100),
            fresh: Duration::from_secs(1),
        }
    }
}

/// The access to a drive behind the switches.
#[derive(Debug, Clone)]
pub(in super::super) struct Behind {
    pub(super) slot: Slot,
    /// PDFID of the drive's physical function: the number by which the switches address the function.
    pub(super) physical: u16,
    /// A number that changes when a scan finds that the slot has lost its drive, has another drive, or has a drive
    /// whose functions are no longer bound to their hosts.
    pub(super) generation: u32,
    /// Both switches, in the order of their PAX ids. Both are needed, because the switch into which a host is plugged
    /// binds functions to that host.
    pub(super) switches: Arc<[Arc<Switch>; 2]>,
    pub(super) pace: Pace,
}

/// Compares slot, physical function and generation. Two equal values lead to the same drive, which then need not
/// be brought up again.
impl PartialEq for Behind {
    fn eq(&self, other: &Self) -> bool {
        let what = |way: &Self| (way.slot, way.physical, way.generation);
        what(self) == what(other)
    }
}

impl Behind {
    /// Returns the index of the slot within the rabbit, from 0.
    pub(in super::super) fn slot(&self) -> u8 {
        self.slot.index
    }

    /// Returns the label printed beside the slot.
    pub(in super::super) fn label(&self) -> u8 {
        self.slot.label
    }

    /// Returns the drive's admin queue, through a tunnel of its switch.
    pub(in super::super) fn admin(&self) -> Admin {
        self.admin_with(self.pace.tunnel)
    }

    pub(super) fn admin_with(&self, patience: Patience) -> Admin {
        let tunnel = Tunnel::new(Arc::clone(self.own()), self.physical, patience);
        Admin::new(Box::new(tunnel))
    }

    /// Brings the drive's virtual functions online, and binds each to its host. Changes nothing on a drive that has too
    /// few functions or a function that is bound to a wrong host.
    pub(in super::super) fn make_ready(&self, nqn: &Nqn, admin: &Admin) -> Result<(), Fault> {
        let functions = self.functions()?;
        let slot_fault = |error: SlotError| error.to_string();
        missing_bindings(&self.slot, &functions).map_err(slot_fault)?;
        let raised = self.raise(nqn, admin, &functions)?;
        let bindings = missing_bindings(&self.slot, &functions).map_err(slot_fault)?;
        for binding in &bindings {
            let fault = |error| in_one_line("bind a virtual function", &error);
            self.switch(binding.seat.host.pax)
                .send(Command::Bind, &binding.request())
                .map_err(fault)?;
        }
        let unbound = missing_bindings(&self.slot, &self.functions()?).map_err(slot_fault)?;
        if !unbound.is_empty() {
            return Err(format!(
                "{} virtual functions are still bound to no host after the switch accepted the bind commands",
                unbound.len()
            ));
        }
        if raised + bindings.len() > 0 {
            let bound = bindings.len();
            info!(drive:% = nqn; "brought up virtual functions in {raised} steps, bound {bound}");
        }
        Ok(())
    }

    /// Fails when the virtual function of the host at `endpoint` is not bound to that host: a namespace attached to the
    /// function would be reached by another host, or by none.
    pub(in super::super) fn check_bound(&self, endpoint: Endpoint) -> Result<(), Fault> {
        let functions = self.functions()?;
        let unbound =
            missing_bindings(&self.slot, &functions).map_err(|error| error.to_string())?;
        let seat = seat(endpoint, &self.slot);
        if unbound.iter().any(|binding| Some(binding.seat) == seat) {
            return Err(format!(
                "the function of endpoint {} is bound to no host",
                endpoint.number()
            ));
        }
        Ok(())
    }

    /// Brings the virtual functions online; returns the number of steps that it took.
    fn raise(&self, nqn: &Nqn, admin: &Admin, functions: &Functions) -> Result<usize, Fault> {
        let fault = |error| in_one_line("read the virtual functions", &error);
        let possible = u16::try_from(functions.virtual_functions.len()).unwrap_or(u16::MAX);
        let preset = quirks(nqn).resources_preset;
        let secondaries = admin.secondaries().map_err(fault)?;
        let steps = bring_up(&Virtual {
            possible,
            enabled: possible,
            hoarded: false,
            preset,
            physical: 0,
            secondaries: secondaries.clone(),
        });
        for step in &steps {
            let Step::Virtualize { controller, action } = *step else {
                return Err(format!("{step:?} is not for a drive behind a switch"));
            };
            if action == Virtualization::Online && !preset {
                self.reset(controller, &secondaries, functions)?;
            }
            let chain = |error| in_one_line(&format!("{step:?}"), &error);
            admin.virtualize(controller, action).map_err(chain)?;
        }
        if !steps.is_empty() {
            // The whole drive counts as faulty when one of its functions stays offline, as in nnf-ec, the earlier
            // software of rabbits.
            if let Some(function) = first_offline(&admin.secondaries().map_err(fault)?) {
                return Err(format!("virtual function {function} does not come online"));
            }
        }
        Ok(steps.len())
    }

    fn reset(
        &self,
        controller: u16,
        secondaries: &[SecondaryController],
        functions: &Functions,
    ) -> Result<(), Fault> {
        let listed = secondaries.iter().find(|function| function.controller.get() == controller);
        let index = listed.and_then(|function| usize::from(function.function.get()).checked_sub(1));
        let function = index.and_then(|index| functions.virtual_functions.get(index));
        let function = function
            .ok_or_else(|| format!("the switch shows no function for controller {controller}"))?;
        let fault = |error| in_one_line("reset a virtual function", &error);
        register::reset(self.own(), function.pdfid).map_err(fault)?;
        pause_for(self.pace.reset);
        Ok(())
    }

    /// Returns the functions of the drive in this slot, as the switch reports them now.
    fn functions(&self) -> Result<Functions, Fault> {
        let fault = |error| in_one_line("read the drive's slot", &error);
        match plugged_at(self.own(), self.slot.at.port).map_err(fault)? {
            Plugged::Drive(functions) if functions.physical == self.physical => Ok(functions),
            Plugged::Drive(_) => Err("another drive was plugged in".to_owned()),
            Plugged::Nothing => Err("it was unplugged".to_owned()),
            Plugged::Other(what) => Err(format!("there is {what} in its slot")),
        }
    }

    /// Returns the switch that the drive is plugged into.
    fn own(&self) -> &Arc<Switch> {
        self.switch(self.slot.at.pax)
    }

    fn switch(&self, pax: u8) -> &Arc<Switch> {
        let [first, second] = &*self.switches;
        if pax == first.pax { first } else { second }
    }
}
