//! Maps each host to the host's controller on a drive.

use storage::desired::{Endpoint, Nqn};
use thiserror::Error;

use super::wire::SecondaryController;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Controllers {
    /// CNTLID of the physical function.
    pub physical: u16,
    /// CNTLIDs of the virtual functions, each with the number of its function, from 1.
    pub virtual_functions: Vec<(u16, u16)>,
}

/// The drive has no controller for a host.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "the drive has no controller for endpoint {}: it has {functions} virtual functions, and that endpoint's would be number {wanted}", .endpoint.number()
)]
pub struct NoController {
    endpoint: Endpoint,
    wanted: u16,
    functions: usize,
}

impl Controllers {
    pub fn new(nqn: &Nqn, physical: u16, secondaries: &[SecondaryController]) -> Self {
        let listed =
            |function: &SecondaryController| (function.function.get(), function.controller.get());
        let mut virtual_functions: Vec<_> = secondaries.iter().map(listed).collect();
        if let (true, Some(first)) = (virtual_functions.is_empty(), quirks(nqn).unlisted_from) {
            virtual_functions = (1..=FUNCTIONS).zip(first..).collect();
        }
        Self { physical, virtual_functions }
    }

    /// Returns the CNTLID of the controller through which a host reaches namespaces. On a drive with virtual functions,
    /// each host has a virtual function. On a drive without virtual functions, the rabbit has the physical function,
    /// and no other host reaches the drive.
    pub fn controller(&self, endpoint: Endpoint) -> Result<u16, NoController> {
        if let (Endpoint::Rabbit, true) = (endpoint, self.virtual_functions.is_empty()) {
            return Ok(self.physical);
        }
        let wanted = function(endpoint);
        let found = self.virtual_functions.iter().find(|(function, _)| *function == wanted);
        let functions = self.virtual_functions.len();
        found.map(|(_, controller)| *controller).ok_or(NoController { endpoint, wanted, functions })
    }

    /// Returns the host that a controller belongs to; `None` for the physical function of a
    /// drive with virtual functions.
    pub fn endpoint(&self, controller: u16) -> Option<Endpoint> {
        let hosts = [Endpoint::Rabbit].into_iter().chain((0..COMPUTES).map(Endpoint::Compute));
        hosts
            .into_iter()
            .find(|host| self.controller(*host).is_ok_and(|number| number == controller))
    }
}

const COMPUTES: u8 = 16;

/// Number of virtual functions that a chassis needs on each drive: one for the rabbit, and one for each compute.
pub const FUNCTIONS: u16 = 17;

/// Returns the number of a host's virtual function.
fn function(endpoint: Endpoint) -> u16 {
    match endpoint {
        Endpoint::Rabbit => 1,
        Endpoint::Compute(slot) => u16::from(slot) + 2,
    }
}

/// Properties in which some models deviate from the specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quirks {
    /// Whether the virtual functions have queues and interrupts from the factory, and refuse to be assigned others.
    pub resources_preset: bool,
    /// The CNTLID of virtual function 1, for a model that does not list its secondary controllers; `None` for all other
    /// models.
    unlisted_from: Option<u16>,
}

/// A drive with two ports. Its two physical functions have the CNTLIDs 1 and 2, and the virtual functions
/// have the next CNTLIDs.
const DUAL_PORT: Quirks = Quirks { resources_preset: true, unlisted_from: Some(3) };

const BY_NQN: [(&str, Quirks); 3] = [
    ("com.kioxia:KCM6", DUAL_PORT),
    ("com.kioxia:KCD7", DUAL_PORT),
    ("com.kioxia:KCM7", DUAL_PORT),
];

pub fn quirks(nqn: &Nqn) -> Quirks {
    let nqn = nqn.to_string();
    let known = BY_NQN.iter().find(|(part, _)| nqn.contains(part));
    known.map(|(_, quirks)| *quirks).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drive(nqn: &str, functions: &[(u16, u16)]) -> Controllers {
        let mut controllers = Controllers::new(&nqn.parse().unwrap(), 0x41, &[]);
        if !functions.is_empty() {
            controllers.virtual_functions = functions.to_vec();
        }
        controllers
    }

    #[test]
    fn controller_returns_the_controller_of_a_hosts_virtual_function() {
        // A drive may list its CNTLIDs in any order.
        let drive = drive("nqn.2019-08.org.qemu:d", &[(3, 9), (1, 7), (2, 8), (8, 30)]);
        for (endpoint, controller) in [
            (Endpoint::Rabbit, Some(7)),
            (Endpoint::Compute(0), Some(8)),
            (Endpoint::Compute(1), Some(9)),
            (Endpoint::Compute(6), Some(30)),
            (Endpoint::Compute(2), None),
        ] {
            assert_eq!(drive.controller(endpoint).ok(), controller, "{endpoint:?}");
            if let Some(controller) = controller {
                assert_eq!(drive.endpoint(controller), Some(endpoint));
            }
        }
        assert_eq!(drive.endpoint(0x41), None, "the physical function has no host");
        let text = drive.controller(Endpoint::Compute(15)).unwrap_err().to_string();
        assert!(text.contains("endpoint 16: it has 4 virtual functions"), "{text}");
    }

    #[test]
    fn a_drive_without_virtual_functions_serves_only_the_rabbit() {
        let drive = drive("nqn.2019-08.org.qemu:d", &[]);
        assert_eq!(drive.controller(Endpoint::Rabbit), Ok(0x41));
        assert!(drive.controller(Endpoint::Compute(0)).is_err());
        assert_eq!(drive.endpoint(0x41), Some(Endpoint::Rabbit));
    }

    #[test]
    fn a_dual_port_drive_has_preset_virtual_functions_from_cntlid_3() {
        let nqn = "nqn.2019-10.com.kioxia:KCM7XRJE1T92:Z2L0A00PT1K8";
        let drive = drive(nqn, &[]);
        assert_eq!(
            (drive.controller(Endpoint::Rabbit), drive.controller(Endpoint::Compute(0))),
            (Ok(3), Ok(4))
        );
        assert_eq!(drive.controller(Endpoint::Compute(15)), Ok(19));
        assert!(quirks(&nqn.parse().unwrap()).resources_preset);
        assert_eq!(quirks(&"nqn.1994-11.com.samsung:x".parse().unwrap()), Quirks::default());
    }
}
