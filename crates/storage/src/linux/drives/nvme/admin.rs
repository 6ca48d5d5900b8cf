//! The admin commands for managing namespaces, over any way to the drive.

use std::{fmt::Debug, io, time::Duration};

use thiserror::Error;
use zerocopy::{FromZeros, IntoBytes};

use super::{
    status::{Status, code},
    wire::{
        Answer, CommandEffects, ControllerList, IdentifyController, IdentifyNamespace,
        NamespaceList, PrimaryCapabilities, SHARED, SUPPORTED, SecondaryController, SecondaryList,
        SmartLog,
    },
};
use crate::linux::bounded::is_given_up;

/// A way to a drive's admin queue: its physical function here, or a tunnel through the PCIe switch.
pub(super) trait AdminQueue: Debug + Send + Sync {
    /// Executes `command`; `data` goes to the drive or comes from it, depending on the opcode. Returns dword 0 of the
    /// completion.
    fn submit(&self, command: Command, data: &mut [u8]) -> Result<u32, AdminError>;

    /// Resets the controller, after which moved resources take effect.
    fn reset(&self) -> Result<(), AdminError>;
}

/// The fields of an admin command that are used here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) opcode: u8,
    pub(super) nsid: u32,
    pub(super) cdw10: u32,
    pub(super) cdw11: u32,
    pub(super) timeout: Duration,
}

/// Why a command failed.
#[derive(Debug, Error)]
pub(super) enum AdminError {
    #[error("{0}")]
    Status(Status),
    #[error("the command was not carried out")]
    System(#[source] io::Error),
    /// It was not sent, because the caller has stopped waiting.
    #[error("it had waited so long that it was given up")]
    GivenUp,
    #[error("the drive's answer to {what} is not as specified: {why}")]
    Malformed { what: &'static str, why: String },
}

impl AdminError {
    pub(super) fn code(&self) -> Option<u16> {
        match self {
            Self::Status(status) => Some(status.code()),
            Self::System(_) | Self::GivenUp | Self::Malformed { .. } => None,
        }
    }
}

pub(super) type Answered<T> = Result<T, AdminError>;

/// Opcodes (Base 5, figure 138; Format NVM: 5.14).
pub(super) mod opcode {
    pub(in super::super) const GET_LOG_PAGE: u8 = 0x02;
    pub(in super::super) const IDENTIFY: u8 = 0x06;
    pub(in super::super) const NAMESPACE_MANAGEMENT: u8 = 0x0d;
    pub(in super::super) const NAMESPACE_ATTACHMENT: u8 = 0x15;
    pub(in super::super) const VIRTUALIZATION_MANAGEMENT: u8 = 0x1c;
    pub(in super::super) const FORMAT: u8 = 0x80;
}

/// CNS values of Identify (Base 5.17.1, figure 273).
pub(super) mod cns {
    pub(in super::super) const NAMESPACE: u8 = 0x00;
    pub(in super::super) const CONTROLLER: u8 = 0x01;
    pub(in super::super) const ALLOCATED_LIST: u8 = 0x10;
    pub(in super::super) const ALLOCATED: u8 = 0x11;
    pub(in super::super) const ATTACHED_CONTROLLERS: u8 = 0x12;
    pub(in super::super) const PRIMARY_CAPABILITIES: u8 = 0x14;
    pub(in super::super) const SECONDARY_LIST: u8 = 0x15;
}

/// Log pages (Base 5.16.1, figure 202).
pub(super) mod log {
    pub(in super::super) const SMART: u32 = 0x02;
    pub(in super::super) const COMMAND_EFFECTS: u32 = 0x05;
}

/// The NSID that stands for all namespaces.
pub(super) const EVERY_NAMESPACE: u32 = u32::MAX;

/// Deadline of reads, which the drive answers from its memory.
const QUICK: Duration = Duration::from_secs(10);
/// Deadline of creation and deletion, which take real drives many seconds.
const SLOW: Duration = Duration::from_secs(120);
/// Deadline of an erasure, which takes drives without cryptographic erase many minutes. An interrupted one is begun
/// anew.
pub(super) const ERASE: Duration = Duration::from_secs(3600);
/// Deadline of a change: longer than the slowest command of the drive.
pub(super) const CHANGE: Duration = SLOW.saturating_add(Duration::from_secs(30));

/// Resources of a controller (Base 5.28, Virtualization Management, RT).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resource {
    Queues,
    Interrupts,
}

/// Actions of Virtualization Management (ACT).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Virtualization {
    /// Leaves this many flexible resources to the primary controller from its next reset on.
    Primary(Resource, u16),
    /// Assigns this many resources to an offline secondary controller.
    Assign(Resource, u16),
    /// Brings a secondary controller online.
    Online,
}

/// Kinds of erasure by Format (Base 5.14, SES).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Erase {
    UserData,
    Cryptographic,
}

#[derive(Debug)]
pub(super) struct Admin(Box<dyn AdminQueue>);

impl Admin {
    pub(super) fn new(queue: Box<dyn AdminQueue>) -> Self {
        Self(queue)
    }

    pub(super) fn reset(&self) -> Answered<()> {
        self.0.reset()
    }

    pub(super) fn controller(&self) -> Answered<IdentifyController> {
        self.identify(cns::CONTROLLER, 0)
    }

    /// The capabilities that all namespaces of the drive share.
    pub(super) fn common(&self) -> Answered<IdentifyNamespace> {
        self.identify(cns::NAMESPACE, EVERY_NAMESPACE)
    }

    /// A namespace, attached or not.
    pub(super) fn namespace(&self, nsid: u32) -> Answered<IdentifyNamespace> {
        self.identify(cns::ALLOCATED, nsid)
    }

    /// All NSIDs in ascending order, reading as many pages as there are: an incomplete list is an error.
    pub(super) fn allocated(&self) -> Answered<Vec<u32>> {
        let mut all: Vec<u32> = Vec::new();
        loop {
            let after = all.last().copied().unwrap_or(0);
            let NamespaceList(page) = self.identify(cns::ALLOCATED_LIST, after)?;
            let found: Vec<u32> =
                page.iter().map(|number| number.get()).take_while(|number| *number != 0).collect();
            let ascends = [after].iter().chain(&found).is_sorted_by(|a, b| a < b);
            if !ascends {
                let why = format!("it does not ascend after {after}");
                return Err(AdminError::Malformed { what: "Identify CNS 10h", why });
            }
            let whole = found.len() == page.len();
            all.extend(found);
            if !whole {
                return Ok(all);
            }
        }
    }

    /// CNTLIDs of the controllers that a namespace is attached to.
    pub(super) fn attached(&self, nsid: u32) -> Answered<Vec<u16>> {
        let list: ControllerList = self.identify(cns::ATTACHED_CONTROLLERS, nsid)?;
        let count = usize::from(list.count.get());
        let Some(controllers) = list.controllers.get(..count) else {
            let why = format!("{count} controllers do not fit into a list");
            return Err(AdminError::Malformed { what: "Identify CNS 12h", why });
        };
        Ok(controllers.iter().map(|number| number.get()).collect())
    }

    pub(super) fn primary(&self) -> Answered<PrimaryCapabilities> {
        self.identify(cns::PRIMARY_CAPABILITIES, 0)
    }

    /// The virtual functions' controllers; none on a drive that has no virtual functions.
    pub(super) fn secondaries(&self) -> Answered<Vec<SecondaryController>> {
        let list: SecondaryList = match self.identify(cns::SECONDARY_LIST, 0) {
            Err(error) if error.code() == Some(code::INVALID_FIELD) => return Ok(Vec::new()),
            other => other?,
        };
        Ok(list.entries.iter().take(list.count.into()).copied().collect())
    }

    /// Whether the drive has an admin command, if it says so (Commands Supported and Effects, log 05h, Base 5.16.1.6):
    /// OACS is not always right.
    pub(super) fn supports(&self, opcode: u8) -> Answered<Option<bool>> {
        match self.log::<CommandEffects>(log::COMMAND_EFFECTS) {
            Err(AdminError::Status(_)) => Ok(None),
            other => Ok(Some(other?.admin[usize::from(opcode)].get() & SUPPORTED != 0)),
        }
    }

    pub(super) fn smart(&self) -> Answered<SmartLog> {
        self.log(log::SMART)
    }

    /// Sets Retain Asynchronous Event, so that others still get the drive's own warnings.
    fn log<T: Answer>(&self, id: u32) -> Answered<T> {
        const RETAIN: u32 = 1 << 15;
        let mut answer = T::new_zeroed();
        let data = answer.as_mut_bytes();
        let dwords = u32::try_from(data.len() / 4 - 1).unwrap_or(u32::MAX);
        let command = Command {
            opcode: opcode::GET_LOG_PAGE,
            nsid: EVERY_NAMESPACE,
            cdw10: id | RETAIN | dwords << 16,
            cdw11: 0,
            timeout: QUICK,
        };
        self.0.submit(command, data)?;
        Ok(answer)
    }

    /// Creates a namespace that several controllers may share, with every block allocated; returns its NSID.
    pub(super) fn create(&self, blocks: u64, format: u8) -> Answered<u32> {
        let mut wanted = IdentifyNamespace::new_zeroed();
        wanted.size = blocks.into();
        wanted.capacity = blocks.into();
        wanted.format = format;
        wanted.sharing = SHARED;
        self.send(change(opcode::NAMESPACE_MANAGEMENT, 0, 0), wanted.as_mut_bytes())
    }

    pub(super) fn delete(&self, nsid: u32) -> Answered<()> {
        self.send(change(opcode::NAMESPACE_MANAGEMENT, nsid, 1), &mut []).map(drop)
    }

    /// Attaches; succeeds when it is attached already.
    pub(super) fn attach(&self, nsid: u32, controller: u16) -> Answered<()> {
        fine(self.attachment(nsid, controller, 0), code::ALREADY_ATTACHED)
    }

    /// Detaches; succeeds when it is not attached.
    pub(super) fn detach(&self, nsid: u32, controller: u16) -> Answered<()> {
        fine(self.attachment(nsid, controller, 1), code::NOT_ATTACHED)
    }

    fn attachment(&self, nsid: u32, controller: u16, select: u32) -> Answered<u32> {
        let mut list = ControllerList::new_zeroed();
        list.count = 1.into();
        list.controllers[0] = controller.into();
        self.send(change(opcode::NAMESPACE_ATTACHMENT, nsid, select), list.as_mut_bytes())
    }

    /// Erases a namespace, which keeps its block format; the controller must be attached to it.
    pub(super) fn format(&self, nsid: u32, format: u8, erase: Erase) -> Answered<()> {
        let settings: u32 = match erase {
            Erase::UserData => 1,
            Erase::Cryptographic => 2,
        };
        let lower = u32::from(format & 0xf);
        let upper = u32::from(format >> 5 & 0b11);
        let cdw10 = lower | settings << 9 | upper << 12;
        let format = change(opcode::FORMAT, nsid, cdw10);
        self.send(Command { timeout: ERASE, ..format }, &mut []).map(drop)
    }

    pub(super) fn virtualize(&self, controller: u16, action: Virtualization) -> Answered<()> {
        let (action, resource, count) = match action {
            Virtualization::Primary(resource, count) => (1, resource, count),
            Virtualization::Assign(resource, count) => (8, resource, count),
            Virtualization::Online => (9, Resource::Queues, 0),
        };
        let resource: u32 = match resource {
            Resource::Queues => 0,
            Resource::Interrupts => 1,
        };
        let cdw10 = action | resource << 8 | u32::from(controller) << 16;
        let virtualize = change(opcode::VIRTUALIZATION_MANAGEMENT, 0, cdw10);
        self.send(Command { cdw11: count.into(), ..virtualize }, &mut []).map(drop)
    }

    fn identify<T: Answer>(&self, cns: u8, nsid: u32) -> Answered<T> {
        let mut answer = T::new_zeroed();
        let cdw10 = cns.into();
        let command = Command { opcode: opcode::IDENTIFY, nsid, cdw10, cdw11: 0, timeout: QUICK };
        self.0.submit(command, answer.as_mut_bytes())?;
        Ok(answer)
    }

    fn send(&self, command: Command, data: &mut [u8]) -> Answered<u32> {
        still_wanted()?;
        self.0.submit(command, data)
    }
}

fn change(opcode: u8, nsid: u32, cdw10: u32) -> Command {
    Command { opcode, nsid, cdw10, cdw11: 0, timeout: SLOW }
}

/// Refuses a change when the caller has stopped waiting and treats it as failed.
pub(super) fn still_wanted() -> Answered<()> {
    if is_given_up() { Err(AdminError::GivenUp) } else { Ok(()) }
}

fn fine(answer: Answered<u32>, already: u16) -> Answered<()> {
    match answer {
        Err(error) if error.code() == Some(already) => Ok(()),
        other => other.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Notes what was asked, and answers with an empty page.
    #[derive(Debug, Default, Clone)]
    struct Noted(Arc<Mutex<Vec<Sent>>>);

    type Sent = (Command, Vec<u8>);

    impl AdminQueue for Noted {
        fn submit(&self, command: Command, data: &mut [u8]) -> Answered<u32> {
            self.0.lock().unwrap().push((command, data.to_vec()));
            Ok(5)
        }

        fn reset(&self) -> Answered<()> {
            Ok(())
        }
    }

    fn sent(ask: impl FnOnce(&Admin)) -> Sent {
        let noted = Noted::default();
        ask(&Admin::new(Box::new(noted.clone())));
        noted.0.lock().unwrap().pop().unwrap()
    }

    #[test]
    fn commands_are_as_the_figures_lay_them_out() {
        let words = |ask: fn(&Admin)| {
            let (command, _) = sent(ask);
            (command.opcode, command.nsid, command.cdw10, command.cdw11)
        };
        assert_eq!(words(|admin| drop(admin.allocated())), (0x06, 0, 0x10, 0));
        assert_eq!(words(|admin| drop(admin.common())), (0x06, 0xffff_ffff, 0x00, 0));
        assert_eq!(words(|admin| drop(admin.attached(3))), (0x06, 3, 0x12, 0));
        assert_eq!(words(|admin| admin.delete(7).unwrap()), (0x0d, 7, 1, 0));
        assert_eq!(words(|admin| admin.attach(7, 2).unwrap()), (0x15, 7, 0, 0));
        assert_eq!(words(|admin| admin.detach(7, 2).unwrap()), (0x15, 7, 1, 0));
        assert_eq!(words(|admin| drop(admin.smart())), (0x02, u32::MAX, 0x007f_8002, 0));
        assert_eq!(words(|admin| drop(admin.supports(0x0d))), (0x02, u32::MAX, 0x03ff_8005, 0));
        let cryptographic: fn(&Admin) = |admin| admin.format(7, 4, Erase::Cryptographic).unwrap();
        assert_eq!(words(cryptographic), (0x80, 7, 0x404, 0));
        assert_eq!(
            words(|admin| admin.format(7, 4, Erase::UserData).unwrap()),
            (0x80, 7, 0x204, 0)
        );
        let assign: fn(&Admin) =
            |admin| admin.virtualize(3, Virtualization::Assign(Resource::Interrupts, 2)).unwrap();
        assert_eq!(words(assign), (0x1c, 0, 0x0003_0108, 2));
        let online: fn(&Admin) = |admin| admin.virtualize(17, Virtualization::Online).unwrap();
        assert_eq!(words(online), (0x1c, 0, 0x0011_0009, 0));
        let primary: fn(&Admin) =
            |admin| admin.virtualize(0, Virtualization::Primary(Resource::Queues, 0)).unwrap();
        assert_eq!(words(primary), (0x1c, 0, 0x0000_0001, 0));
    }

    #[test]
    fn erasing_has_more_time_than_anything_else() {
        let (format, _) = sent(|admin| admin.format(7, 4, Erase::UserData).unwrap());
        let (delete, _) = sent(|admin| admin.delete(7).unwrap());
        assert_eq!((format.timeout, delete.timeout), (ERASE, SLOW));
    }

    #[test]
    fn a_namespace_is_asked_for_thick_and_shared() {
        let (command, data) = sent(|admin| assert_eq!(admin.create(131_072, 4).unwrap(), 5));
        assert_eq!((command.opcode, command.nsid, command.cdw10), (0x0d, 0, 0));
        assert_eq!(data[..16], [131_072_u64.to_le_bytes(), 131_072_u64.to_le_bytes()].concat());
        assert_eq!((data[26], data[29], data[30]), (4, 0, 1), "FLBAS, DPS, NMIC");
    }

    #[test]
    fn exactly_one_controller_is_attached() {
        let (_, data) = sent(|admin| admin.attach(7, 0x1234).unwrap());
        assert_eq!((data.len(), &data[..6]), (4096, &[1, 0, 0x34, 0x12, 0, 0][..]));
    }
}
