//! Assigns a drive's virtual functions to hosts: each host has one function of every drive.

use storage::desired::Endpoint;
use thiserror::Error;

use super::{
    dump::Functions,
    topology::{Seat, Slot, host_at, hosts, seat},
    wire::{BIND, BindFunction, BindRequest},
};

/// The drive has too few functions, or a function is bound to a wrong host. The agent then changes nothing on the
/// drive: a namespace attached for one host would be reached by another host, or by none.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum SlotError {
    #[error(
        "the drive in slot {label} shows no virtual functions to the switch: enable SR-IOV for the port in the switch's configuration, or exchange the drive"
    )]
    NoVirtualFunctions { label: u8 },
    #[error(
        "the drive in slot {label} shows {found} virtual functions to the switch, and a chassis needs {wanted}: see the port's SR-IOV setting in the switch's configuration, or exchange the drive"
    )]
    TooFew { label: u8, found: usize, wanted: usize },
    #[error(
        "the drive in slot {label} has function {number}, of {}, bound to {}: make sure that nothing there uses the drive, then unbind function {pdfid:04X}h", name(*.endpoint), host_of(.found)
    )]
    BoundElsewhere { label: u8, number: usize, pdfid: u16, endpoint: Endpoint, found: Seat },
}

/// A virtual function that is to be bound to its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Binding {
    pub(super) seat: Seat,
    pub(super) pdfid: u16,
}

impl Binding {
    /// Builds the request. It goes to the switch of the host, not to the switch of the drive.
    pub(super) fn request(&self) -> BindRequest {
        let mut functions: [BindFunction; 8] = zerocopy::FromZeros::new_zeroed();
        functions[0].pdfid = self.pdfid.into();
        let Seat { host, logical } = self.seat;
        BindRequest { subcommand: BIND, pax: host.pax, port: host.port, logical, functions }
    }
}

/// Returns the functions that are not bound yet, each with the host port to which it is to be bound.
pub(super) fn missing_bindings(
    slot: &Slot,
    functions: &Functions,
) -> Result<Vec<Binding>, SlotError> {
    let (label, found) = (slot.label, functions.virtual_functions.len());
    let wanted = hosts().count();
    match found {
        0 => return Err(SlotError::NoVirtualFunctions { label }),
        found if found < wanted => return Err(SlotError::TooFew { label, found, wanted }),
        _ => {}
    }
    let mut missing = Vec::new();
    for ((number, function), endpoint) in (1..).zip(&functions.virtual_functions).zip(hosts()) {
        let pdfid = function.pdfid;
        match (seat(endpoint, slot), function.bound) {
            (Some(seat), None) => missing.push(Binding { seat, pdfid }),
            (wanted, Some(found)) if wanted != Some(found) => {
                return Err(SlotError::BoundElsewhere { label, number, pdfid, endpoint, found });
            }
            (_, _) => {}
        }
    }
    Ok(missing)
}

fn name(endpoint: Endpoint) -> String {
    match endpoint {
        Endpoint::Rabbit => "the rabbit".to_owned(),
        Endpoint::Compute(index) => format!("compute {index}"),
    }
}

fn host_of(seat: &Seat) -> String {
    let Seat { host, logical } = seat;
    let host_name = host_at(*host).map_or_else(|| "no host of a rabbit".to_owned(), name);
    format!("{host_name} (PAX {} port {}, logical port {logical})", host.pax, host.port)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            dump::Function,
            topology::{Port, slots},
        },
        *,
    };

    fn functions(count: u16) -> Functions {
        let function = |number| Function { pdfid: 0x1000 + number, bound: None };
        Functions { physical: 0x1000, virtual_functions: (1..=count).map(function).collect() }
    }

    #[test]
    fn missing_bindings_assigns_function_one_to_the_rabbit_and_the_next_functions_to_the_computes()
    {
        let slot = slots(1)[0];
        let missing = missing_bindings(&slot, &functions(17)).unwrap();
        assert_eq!(missing.len(), 17);
        let as_bound = |index: usize| {
            let Binding { seat, pdfid } = missing[index];
            (seat.host.pax, seat.host.port, seat.logical, pdfid)
        };
        assert_eq!(as_bound(0), (1, 24, 0, 0x1001), "the rabbit");
        assert_eq!(as_bound(1), (0, 32, 9, 0x1002), "compute 0");
        assert_eq!(as_bound(16), (1, 46, 9, 0x1011), "compute 15");
        let request = missing[16].request();
        assert_eq!(zerocopy::IntoBytes::as_bytes(&request)[..8], [1, 1, 46, 9, 0x11, 0x10, 0, 0]);
    }

    #[test]
    fn missing_bindings_leaves_out_bound_and_surplus_functions() {
        let slot = slots(0)[3];
        let mut all = functions(32);
        for binding in missing_bindings(&slot, &all).unwrap() {
            let bound =
                all.virtual_functions.iter_mut().find(|function| function.pdfid == binding.pdfid);
            bound.unwrap().bound = Some(binding.seat);
        }
        assert_eq!(missing_bindings(&slot, &all), Ok(Vec::new()));
        assert!(all.virtual_functions[17..].iter().all(|function| function.bound.is_none()));
    }

    #[test]
    fn a_function_bound_to_another_host_is_reported_with_both_hosts() {
        let slot = slots(0)[0];
        let mut stolen = functions(17);
        let found = Seat { host: Port { pax: 0, port: 42 }, logical: 0 };
        stolen.virtual_functions[1].bound = Some(found);
        let error = missing_bindings(&slot, &stolen).unwrap_err();
        let expected = "the drive in slot 8 has function 2, of compute 0, bound to compute 5 (PAX 0 port 42, logical port 0)";
        assert!(error.to_string().starts_with(expected), "{error}");
        stolen.virtual_functions[1].bound =
            Some(Seat { host: Port { pax: 0, port: 32 }, logical: 1 });
        assert!(
            missing_bindings(&slot, &stolen).is_err(),
            "the right host, but another logical port"
        );
    }

    #[test]
    fn missing_bindings_fails_with_the_number_of_functions_when_there_are_too_few() {
        let slot = slots(0)[0];
        let none = missing_bindings(&slot, &functions(0));
        assert_eq!(none, Err(SlotError::NoVirtualFunctions { label: 8 }));
        let error = missing_bindings(&slot, &functions(16)).unwrap_err();
        assert_eq!(error, SlotError::TooFew { label: 8, found: 16, wanted: 17 });
    }
}
