//! Simulates a drive that answers admin commands. It behaves like QEMU's emulated drives with namespace management, as
//! the scenario `nvme` of the lab (docs/develop/lab.md) observed them.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::{Arc, Mutex, MutexGuard},
};

use zerocopy::{FromBytes, FromZeros, IntoBytes};

use super::{
    admin::{AdminError, AdminQueue, Answered, Command, cns, log, opcode},
    status::Status,
    wire::{
        ControllerList, DEALLOCATED_IS_ZERO, IdentifyController, IdentifyNamespace,
        NAMESPACE_MANAGEMENT, NamespaceList, SecondaryList,
    },
};

const INVALID_FIELD: u16 = 0x4002;
const INVALID_NAMESPACE: u16 = 0x400b;
/// Host Aborted Command (NVME_SC_HOST_ABORTED_CMD of Linux).
const CANCELLED: u16 = 0x0371;
const INVALID_SECONDARY_STATE: u16 = 0x4120;

/// A namespace of the simulated drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    pub blocks: u64,
    pub nguid: [u8; 16],
    pub attached: BTreeSet<u16>,
    pub erased: bool,
}

#[derive(Debug)]
pub struct State {
    pub capacity: u64,
    pub namespaces: BTreeMap<u32, Namespace>,
    /// Maximum number of namespaces.
    pub most: u32,
    /// The status with which the drive refuses every new namespace, regardless of the room that it reports.
    pub refuses: Option<u16>,
    /// Whether the drive refuses every command that changes anything, as a drive that is write-protected as a whole
    /// does.
    pub refuses_changes: bool,
    pub functions: u16,
    /// Offline virtual functions, by number.
    pub down: BTreeMap<u16, Down>,
    pub nqn: String,
    pub reads_zero: bool,
    pub gives_nguid: bool,
    /// FNA of Identify Controller.
    pub format: u8,
    /// Critical Warning and Percentage Used.
    pub smart: (u8, u8),
    /// Composite Temperature, in kelvin.
    pub kelvin: u16,
    /// The opcode of a command: the answer to the next command with this opcode is lost. `Lost` says whether the drive
    /// still carries this command out.
    pub lose: Option<(u8, Lost)>,
    pub surprise: Option<Surprise>,
    /// Number of erasures so far.
    pub formats: u32,
    /// Number of commands that the drive has carried out.
    pub answered: u32,
    made: u8,
}

/// A change of the drive that happens just before the first command of a given kind.
#[derive(Debug)]
pub struct Surprise {
    pub before: fn(Command) -> bool,
    pub happens: fn(&mut State),
}

/// A virtual function that is offline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Down {
    pub queues: u16,
    pub interrupts: u16,
    /// Whether the function comes online only after a reset of the function.
    pub stuck: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    Before,
    After,
    /// The drive carries the command out, and Linux reports that a reset cancelled it.
    Cancelled,
}

/// A handle to the simulated drive.
#[derive(Debug, Clone)]
pub struct Simulated(Arc<Mutex<State>>);

impl Simulated {
    pub fn new(capacity: u64, functions: u16) -> Self {
        Self(Arc::new(Mutex::new(State {
            capacity,
            namespaces: BTreeMap::new(),
            most: 32,
            refuses: None,
            refuses_changes: false,
            functions,
            down: BTreeMap::new(),
            nqn: "nqn.2019-08.org.qemu:drive0".to_owned(),
            reads_zero: true,
            gives_nguid: true,
            format: 0,
            smart: (0, 0),
            kelvin: 0,
            lose: None,
            surprise: None,
            formats: 0,
            answered: 0,
            made: 0,
        })))
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Carries out a command and returns the drive's answer; fails if [`State::lose`] says that this answer is lost.
    pub fn answer(&self, command: Command, data: &mut [u8]) -> io::Result<Word> {
        let mut state = self.state();
        let lost = state.lose.take_if(|(opcode, _)| *opcode == command.opcode);
        let gone = || io::ErrorKind::ConnectionAborted.into();
        if let Some((_, Lost::Before)) = lost {
            return Err(gone());
        }
        state.answered += 1;
        if let Some(surprise) = state.surprise.take_if(|surprise| (surprise.before)(command)) {
            (surprise.happens)(&mut state);
        }
        let answer = state.carry_out(command, data);
        match lost {
            Some((_, Lost::Cancelled)) => Ok(Err(CANCELLED)),
            Some(_) => Err(gone()),
            None => Ok(answer),
        }
    }
}

impl AdminQueue for Simulated {
    fn submit(&self, command: Command, data: &mut [u8]) -> Answered<u32> {
        let answer = self.answer(command, data).map_err(AdminError::System)?;
        answer.map_err(|word| AdminError::Status(Status::new(word)))
    }

    fn reset(&self) -> Answered<()> {
        Ok(())
    }
}

/// Dword 0 of a completion, or a status.
pub type Word = Result<u32, u16>;

impl State {
    pub fn unallocated(&self) -> u64 {
        self.capacity
            - self.namespaces.values().map(|namespace| namespace.blocks << 12).sum::<u64>()
    }

    fn carry_out(&mut self, command: Command, data: &mut [u8]) -> Word {
        match command.opcode {
            opcode::IDENTIFY => self.identify(command, data),
            opcode::GET_LOG_PAGE if command.cdw10 & 0xff == log::SMART => {
                (data[0], data[5]) = self.smart;
                data[1..3].copy_from_slice(&self.kelvin.to_le_bytes());
                Ok(0)
            }
            _ if self.refuses_changes && command.opcode != opcode::GET_LOG_PAGE => Err(0x4001),
            opcode::NAMESPACE_MANAGEMENT if command.cdw10 == 0 => {
                self.create(&IdentifyNamespace::read_from_bytes(data).unwrap())
            }
            opcode::NAMESPACE_MANAGEMENT => {
                self.namespaces.remove(&command.nsid).map(|_| 0).ok_or(INVALID_NAMESPACE)
            }
            opcode::NAMESPACE_ATTACHMENT => {
                let list = ControllerList::read_from_bytes(data).unwrap();
                self.attachment(command, list.controllers[0].get())
            }
            opcode::FORMAT => {
                let namespace = self.namespaces.get_mut(&command.nsid).ok_or(INVALID_NAMESPACE)?;
                // The drive itself demands that the namespace is attached to this controller (seen on QEMU).
                if !namespace.attached.contains(&0) {
                    return Err(INVALID_FIELD);
                }
                namespace.erased = true;
                self.formats += 1;
                // This behaviour follows the specification; it was not seen on a drive.
                if self.format & 0b11 != 0 {
                    self.namespaces.values_mut().for_each(|namespace| namespace.erased = true);
                }
                Ok(0)
            }
            opcode::VIRTUALIZATION_MANAGEMENT => self.virtualize(command),
            _ => Err(0x4001),
        }
    }

    /// Assigns resources to a function, or brings the function online. Both are allowed only while the function is
    /// offline (NVM Express Base Specification 2.0, 8.26.3).
    fn virtualize(&mut self, command: Command) -> Word {
        let [action, resource, low, high] = command.cdw10.to_le_bytes();
        let function = u16::from_le_bytes([low, high]);
        let count = u16::try_from(command.cdw11).unwrap();
        let down = self.down.get_mut(&function).ok_or(INVALID_SECONDARY_STATE)?;
        match (action, resource) {
            (8, 0) => down.queues = count,
            (8, 1) => down.interrupts = count,
            (9, _) if down.queues < 2 || down.interrupts < 2 || down.stuck => {
                return Err(INVALID_SECONDARY_STATE);
            }
            (9, _) => drop(self.down.remove(&function)),
            _ => return Err(INVALID_FIELD),
        }
        Ok(0)
    }

    fn identify(&self, command: Command, data: &mut [u8]) -> Word {
        let answer: &mut [u8] = data;
        let mut put = |bytes: &[u8]| answer.copy_from_slice(bytes);
        match u8::try_from(command.cdw10 & 0xff).unwrap() {
            cns::CONTROLLER => put(self.controller().as_bytes()),
            cns::NAMESPACE => put(self
                .describe(&Namespace {
                    blocks: 0,
                    nguid: [0; 16],
                    attached: BTreeSet::new(),
                    erased: false,
                })
                .as_bytes()),
            cns::ALLOCATED => {
                let namespace = self.namespaces.get(&command.nsid).ok_or(INVALID_NAMESPACE)?;
                put(self.describe(namespace).as_bytes());
            }
            cns::ALLOCATED_LIST => {
                let mut list = NamespaceList::new_zeroed();
                let after = self.namespaces.keys().filter(|nsid| **nsid > command.nsid);
                list.0.iter_mut().zip(after).for_each(|(entry, nsid)| *entry = (*nsid).into());
                put(list.as_bytes());
            }
            cns::ATTACHED_CONTROLLERS => {
                // For an NSID that does not exist, QEMU answers Invalid Field here.
                let namespace = self.namespaces.get(&command.nsid).ok_or(INVALID_FIELD)?;
                let mut list = ControllerList::new_zeroed();
                list.count = u16::try_from(namespace.attached.len()).unwrap().into();
                list.controllers
                    .iter_mut()
                    .zip(&namespace.attached)
                    .for_each(|(entry, controller)| *entry = (*controller).into());
                put(list.as_bytes());
            }
            cns::SECONDARY_LIST if self.functions > 0 => {
                let mut list = SecondaryList::new_zeroed();
                list.count = u8::try_from(self.functions).unwrap();
                for (entry, number) in list.entries.iter_mut().zip(1..=self.functions) {
                    entry.controller = number.into();
                    entry.function = number.into();
                    let down = self.down.get(&number).copied();
                    entry.state = u8::from(down.is_none());
                    entry.queues = down.map_or(2, |down| down.queues).into();
                    entry.interrupts = down.map_or(2, |down| down.interrupts).into();
                }
                put(list.as_bytes());
            }
            _ => return Err(INVALID_FIELD),
        }
        Ok(0)
    }

    fn controller(&self) -> IdentifyController {
        let mut answer = IdentifyController::new_zeroed();
        let serial = format!("{:20}", self.nqn.rsplit(':').next().unwrap_or_default());
        answer.serial.copy_from_slice(serial.as_bytes());
        answer.nqn[..self.nqn.len()].copy_from_slice(self.nqn.as_bytes());
        answer.admin_commands = NAMESPACE_MANAGEMENT.into();
        answer.format = self.format;
        answer.warm = (273 + 70).into();
        answer.total = u128::from(self.capacity).into();
        answer.unallocated = u128::from(self.unallocated()).into();
        answer.max_namespaces = self.most.into();
        answer
    }

    fn describe(&self, namespace: &Namespace) -> IdentifyNamespace {
        let mut answer = IdentifyNamespace::new_zeroed();
        answer.size = namespace.blocks.into();
        answer.capacity = namespace.blocks.into();
        answer.nguid = namespace.nguid;
        answer.formats = 2;
        answer.format = 1;
        for (format, (power, metadata)) in
            answer.format_list.iter_mut().zip([(9, 0_u16), (12, 0), (12, 8)])
        {
            format.power = power;
            format.metadata = metadata.into();
        }
        answer.deallocation = if self.reads_zero { DEALLOCATED_IS_ZERO } else { 0 };
        answer
    }

    fn create(&mut self, wanted: &IdentifyNamespace) -> Word {
        let blocks = wanted.size.get();
        if wanted.format != 1 {
            return Err(0x410a);
        }
        if blocks << 12 > self.unallocated() {
            return Err(0x4115);
        }
        if self.namespaces.len() >= usize::try_from(self.most).unwrap() {
            return Err(0x4116);
        }
        if let Some(status) = self.refuses {
            return Err(status);
        }
        self.made += 1;
        let nguid = if self.gives_nguid { [self.made; 16] } else { [0; 16] };
        // Use the lowest free NSID, because drives reuse NSIDs.
        let nsid = (1..).find(|nsid| !self.namespaces.contains_key(nsid)).unwrap();
        let attached = BTreeSet::new();
        self.namespaces.insert(nsid, Namespace { blocks, nguid, attached, erased: false });
        Ok(nsid)
    }

    fn attachment(&mut self, command: Command, controller: u16) -> Word {
        let namespace = self.namespaces.get_mut(&command.nsid).ok_or(INVALID_NAMESPACE)?;
        if controller > self.functions {
            return Err(0x411c);
        }
        match command.cdw10 {
            0 => namespace.attached.insert(controller).then_some(0).ok_or(0x4118),
            _ => namespace.attached.remove(&controller).then_some(0).ok_or(0x411a),
        }
    }
}
