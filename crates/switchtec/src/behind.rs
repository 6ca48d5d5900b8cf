//! Brings up a drive behind the switches, and opens its admin queue.

use std::{sync::Arc, time::Duration};

use block_devices::busy::pause_for;
use drives::nvme::{
    Fault, PhysicalFunction,
    admin::Admin,
    functions::{offline_numbers, start_offline},
    hosts::{FUNCTIONS, quirks},
    in_one_line,
    wire::SecondaryController,
};
use storage::{
    desired::{Endpoint, Nqn},
    observed::Functions as Virtual,
    step::DriveAction,
};

use super::{
    bindings::{Binding, SlotError, missing_bindings},
    command::Command,
    dump::{Functions, Plugged, plugged_at},
    register,
    switch::Switch,
    topology::{Slot, seat},
    tunnel::{Patience, Tunnel},
};

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
pub(super) struct Behind {
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

impl PhysicalFunction for Behind {
    /// Returns the drive's admin queue, through a tunnel of its switch.
    fn admin(&self) -> Admin {
        self.admin_with(self.pace.tunnel)
    }

    fn slot(&self) -> Option<u32> {
        Some(self.slot.index.into())
    }

    /// Returns the label of the slot in the table of the rabbit's wiring.
    fn label(&self) -> String {
        self.slot.label.to_string()
    }

    fn generation(&self) -> u64 {
        u64::from(self.generation) << 16 | u64::from(self.physical)
    }

    /// Fails also when the drive has too few functions, or a function that is bound to a wrong host: such a drive must
    /// not be changed.
    fn functions(&self, drive: &Nqn, admin: &Admin) -> Result<Virtual, Fault> {
        let functions = self.functions_now()?;
        let unbound = self.unbound(&functions)?.len();
        let fault = |error| in_one_line("read the virtual functions", &error);
        let listed = admin.secondaries().map_err(fault)?;
        let count = |length: usize| u16::try_from(length).unwrap_or(u16::MAX);
        let shown = count(functions.virtual_functions.len());
        Ok(Virtual {
            wanted: shown.min(FUNCTIONS),
            enabled: shown,
            hoarded: false,
            preset: quirks(drive).resources_preset,
            offline: offline_numbers(&listed),
            unbound: count(unbound),
        })
    }

    /// Brings offline functions online, or binds unbound functions to their hosts.
    fn change(&self, action: &DriveAction, drive: &Nqn, admin: &Admin) -> Result<(), Fault> {
        let functions = self.functions_now()?;
        let unbound = self.unbound(&functions)?;
        match action {
            DriveAction::StartFunctions(numbers) => self.start(drive, admin, numbers, &functions),
            DriveAction::BindFunctions(_) => self.bind(&unbound),
            other => Err(format!("{other}: the switch does this for the drives behind it")),
        }
    }

    /// Fails when the virtual function of the host at `endpoint` is not bound to that host: a namespace attached to the
    /// function would be reached by another host, or by none.
    fn check_bound(&self, endpoint: Endpoint) -> Result<(), Fault> {
        let functions = self.functions_now()?;
        let unbound = self.unbound(&functions)?;
        let seat = seat(endpoint, &self.slot);
        if unbound.iter().any(|binding| Some(binding.seat) == seat) {
            return Err(format!(
                "the function of endpoint {} is bound to no host",
                endpoint.number()
            ));
        }
        Ok(())
    }
}

impl Behind {
    pub(super) fn admin_with(&self, patience: Patience) -> Admin {
        let tunnel = Tunnel::new(Arc::clone(self.own()), self.physical, patience);
        Admin::new(Box::new(tunnel))
    }

    fn unbound(&self, functions: &Functions) -> Result<Vec<Binding>, Fault> {
        missing_bindings(&self.slot, functions).map_err(|error: SlotError| error.to_string())
    }

    fn bind(&self, bindings: &[Binding]) -> Result<(), Fault> {
        for binding in bindings {
            let fault = |error| in_one_line("bind a virtual function", &error);
            self.switch(binding.seat.host.pax)
                .send(Command::Bind, &binding.request())
                .map_err(fault)?;
        }
        match self.unbound(&self.functions_now()?)?.len() {
            0 => Ok(()),
            unbound => Err(format!(
                "{unbound} virtual functions are still bound to no host after the switch accepted the bind commands"
            )),
        }
    }

    fn start(
        &self,
        nqn: &Nqn,
        admin: &Admin,
        numbers: &[u16],
        functions: &Functions,
    ) -> Result<(), Fault> {
        let fault = |error| in_one_line("read the virtual functions", &error);
        let preset = quirks(nqn).resources_preset;
        let listed = admin.secondaries().map_err(fault)?;
        let reset = |function: &SecondaryController| {
            if preset { Ok(()) } else { Ok(self.reset(function, functions)?) }
        };
        start_offline(admin, &listed, numbers, preset, reset)
            .map_err(|error| in_one_line("start virtual functions", &*error))?;
        // The whole drive counts as faulty when one of its functions stays offline, as in nnf-ec, the earlier software
        // of rabbits.
        match offline_numbers(&admin.secondaries().map_err(fault)?).first() {
            Some(function) => Err(format!("virtual function {function} does not come online")),
            None => Ok(()),
        }
    }

    fn reset(&self, listed: &SecondaryController, functions: &Functions) -> Result<(), Fault> {
        let index = usize::from(listed.function.get()).checked_sub(1);
        let function = index.and_then(|index| functions.virtual_functions.get(index));
        let function = function
            .ok_or_else(|| format!("the switch shows no virtual function {}", listed.function))?;
        let fault = |error| in_one_line("reset a virtual function", &error);
        register::reset(self.own(), function.pdfid).map_err(fault)?;
        pause_for(self.pace.reset);
        Ok(())
    }

    /// Returns the functions of the drive in this slot, as the switch reports them now.
    fn functions_now(&self) -> Result<Functions, Fault> {
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
