//! Sends to a drive the admin commands that manage namespaces. The drive's admin queue is reached in one of several
//! ways ([`AdminQueue`]). *Base* is the NVM Express Base Specification 2.0.

mod command;

use std::fmt::Debug;

pub use command::{
    AdminError, Answered, CHANGE, Command, ERASE, EVERY_NAMESPACE, cns, log, opcode,
};
use process::bounded::is_given_up;
use zerocopy::{FromZeros, IntoBytes};

use self::command::{QUICK, SLOW};
use super::{
    status::code,
    wire::{
        Answer, CommandEffects, ControllerList, IdentifyController, IdentifyNamespace,
        NamespaceList, PrimaryCapabilities, SHARED, SUPPORTED, SecondaryController, SecondaryList,
        SmartLog,
    },
};

/// A drive's admin queue. It is reached through the drive's physical function on this node, or through a tunnel
/// of the PCIe switch.
pub trait AdminQueue: Debug + Send + Sync {
    /// Executes `command`. Depending on the opcode, the drive reads `data` or writes it. Returns dword
    /// 0 of the completion.
    fn submit(&self, command: Command, data: &mut [u8]) -> Result<u32, AdminError>;

    /// Resets the controller. A change of the number of flexible resources (queues and interrupts) that the controller
    /// keeps takes effect only with this reset.
    fn reset(&self) -> Result<(), AdminError>;
}

/// Resources of a controller (Base 5.28, Virtualization Management, RT).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    Queues,
    Interrupts,
}

/// Actions of Virtualization Management (ACT).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Virtualization {
    /// Leaves this many flexible resources to the primary controller, from the controller's next reset on.
    Primary(Resource, u16),
    /// Assigns this many resources to an offline secondary controller.
    Assign(Resource, u16),
    /// Brings a secondary controller online.
    Online,
}

/// Ways in which Format can erase (Base 5.14, SES).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Erase {
    UserData,
    Cryptographic,
}

#[derive(Debug)]
pub struct Admin(Box<dyn AdminQueue>);

impl Admin {
    pub fn new(queue: Box<dyn AdminQueue>) -> Self {
        Self(queue)
    }

    pub fn reset(&self) -> Answered<()> {
        self.0.reset()
    }

    pub fn controller(&self) -> Answered<IdentifyController> {
        self.identify(cns::CONTROLLER, 0)
    }

    /// Reads the capabilities that all namespaces of the drive share.
    pub fn common(&self) -> Answered<IdentifyNamespace> {
        self.identify(cns::NAMESPACE, EVERY_NAMESPACE)
    }

    /// Identifies a namespace, attached or not.
    pub fn namespace(&self, nsid: u32) -> Answered<IdentifyNamespace> {
        self.identify(cns::ALLOCATED, nsid)
    }

    /// Lists all NSIDs in ascending order, from as many pages as the drive has; an incomplete list is an error.
    pub fn allocated(&self) -> Answered<Vec<u32>> {
        let mut all: Vec<u32> = Vec::new();
        loop {
            let after = all.last().copied().unwrap_or(0);
            let NamespaceList(page) = self.identify(cns::ALLOCATED_LIST, after)?;
            let found: Vec<u32> =
                page.iter().map(|number| number.get()).take_while(|number| *number != 0).collect();
            let ascends = [after].iter().chain(&found).is_sorted_by(|a, b| a < b);
            if !ascends {
                let why = format!("NSIDs do not ascend after {after}");
                return Err(AdminError::Malformed { what: "Identify CNS 10h", why });
            }
            let is_page_full = found.len() == page.len();
            all.extend(found);
            if !is_page_full {
                return Ok(all);
            }
        }
    }

    /// Lists the CNTLIDs of the controllers to which a namespace is attached.
    pub fn attached_controllers(&self, nsid: u32) -> Answered<Vec<u16>> {
        let list: ControllerList = self.identify(cns::ATTACHED_CONTROLLERS, nsid)?;
        let count = usize::from(list.count.get());
        let Some(controllers) = list.controllers.get(..count) else {
            let why = format!("{count} controllers do not fit into a list");
            return Err(AdminError::Malformed { what: "Identify CNS 12h", why });
        };
        Ok(controllers.iter().map(|number| number.get()).collect())
    }

    pub fn primary(&self) -> Answered<PrimaryCapabilities> {
        self.identify(cns::PRIMARY_CAPABILITIES, 0)
    }

    /// Lists the controllers of the virtual functions; the list of a drive without virtual functions is empty.
    pub fn secondaries(&self) -> Answered<Vec<SecondaryController>> {
        let list: SecondaryList = match self.identify(cns::SECONDARY_LIST, 0) {
            Err(error) if error.code() == Some(code::INVALID_FIELD) => return Ok(Vec::new()),
            other => other?,
        };
        Ok(list.entries.iter().take(list.count.into()).copied().collect())
    }

    /// Returns whether the drive supports an admin command, according to its log page 05h (Commands Supported and
    /// Effects, Base 5.16.1.6); `None` when the drive has no such page. The bits of OACS alone are not reliable.
    pub fn supports(&self, opcode: u8) -> Answered<Option<bool>> {
        match self.log::<CommandEffects>(log::COMMAND_EFFECTS) {
            Err(AdminError::Status(_)) => Ok(None),
            other => Ok(Some(other?.admin[usize::from(opcode)].get() & SUPPORTED != 0)),
        }
    }

    pub fn smart(&self) -> Answered<SmartLog> {
        self.log(log::SMART)
    }

    /// Reads a log page with Retain Asynchronous Event, so that other readers still get the drive's own warnings.
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

    /// Creates a namespace that several controllers may share and whose blocks are all allocated; returns its NSID.
    pub fn create(&self, blocks: u64, format: u8) -> Answered<u32> {
        let mut wanted = IdentifyNamespace::new_zeroed();
        wanted.size = blocks.into();
        wanted.capacity = blocks.into();
        wanted.format = format;
        wanted.sharing = SHARED;
        self.send(change(opcode::NAMESPACE_MANAGEMENT, 0, 0), wanted.as_mut_bytes())
    }

    pub fn delete(&self, nsid: u32) -> Answered<()> {
        self.send(change(opcode::NAMESPACE_MANAGEMENT, nsid, 1), &mut []).map(drop)
    }

    /// Attaches a namespace to a controller; succeeds also when it is attached already.
    pub fn attach(&self, nsid: u32, controller: u16) -> Answered<()> {
        accept_status(self.attachment(nsid, controller, 0), code::ALREADY_ATTACHED)
    }

    /// Detaches a namespace from a controller; succeeds also when it is not attached.
    pub fn detach(&self, nsid: u32, controller: u16) -> Answered<()> {
        accept_status(self.attachment(nsid, controller, 1), code::NOT_ATTACHED)
    }

    fn attachment(&self, nsid: u32, controller: u16, select: u32) -> Answered<u32> {
        let mut list = ControllerList::new_zeroed();
        list.count = 1.into();
        list.controllers[0] = controller.into();
        self.send(change(opcode::NAMESPACE_ATTACHMENT, nsid, select), list.as_mut_bytes())
    }

    /// Erases a namespace and keeps its block format. The namespace must be attached to the controller
    /// that gets the command.
    pub fn format(&self, nsid: u32, format: u8, erase: Erase) -> Answered<()> {
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

    pub fn virtualize(&self, controller: u16, action: Virtualization) -> Answered<()> {
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
        check_not_given_up()?;
        self.0.submit(command, data)
    }
}

fn change(opcode: u8, nsid: u32, cdw10: u32) -> Command {
    Command { opcode, nsid, cdw10, cdw11: 0, timeout: SLOW }
}

/// Refuses a change when the caller has stopped waiting: the caller already treats the change as failed.
pub fn check_not_given_up() -> Answered<()> {
    if is_given_up() { Err(AdminError::GivenUp) } else { Ok(()) }
}

/// Counts the status `accepted` as success too: with this status, the drive was already in the requested state.
fn accept_status(answer: Answered<u32>, accepted: u16) -> Answered<()> {
    match answer {
        Err(error) if error.code() == Some(accepted) => Ok(()),
        other => other.map(drop),
    }
}

#[cfg(test)]
mod tests;
