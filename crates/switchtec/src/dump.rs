//! Reads which device is plugged into a port, with its functions and the hosts to which the functions are bound. A
//! switch sends this description as a dump of a part of its database. The PDFID in it is the number by which the
//! switches address a function.

use zerocopy::{FromBytes, FromZeros, Immutable, KnownLayout};

use super::{
    command::Command,
    switch::{LockedSwitch, Result, Switch},
    topology::{Port, Seat},
    wire_dump::{
        AttachmentHead, CLASS_NVME, DUMP_ENDPOINT_PORT, DUMP_FINISH, DUMP_GET, DUMP_HEAD,
        DUMP_MOST, DUMP_START, DumpGet, DumpPiece, DumpRequest, DumpStarted, FUNCTION_IS_VIRTUAL,
        FunctionEntry, PORT_HAS_ENDPOINT, PORT_HAS_SWITCH, PORT_IS_EMPTY, PortHead, SectionHead,
        of_24,
    },
};

/// Maximum dwords of a dump that this module accepts. The dump of one drive is never longer, because a drive has at
/// most some hundred functions.
const MOST_DWORDS: usize = 0x4000;

/// The device at a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Plugged {
    Nothing,
    /// A switch, or a device that is no NVMe drive.
    Other(String),
    Drive(Functions),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Functions {
    /// PDFID of the physical function.
    pub(super) physical: u16,
    /// The virtual functions, from number 1.
    pub(super) virtual_functions: Vec<Function>,
}

/// A virtual function of the drive, as its switch reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Function {
    pub(super) pdfid: u16,
    /// The host port to which the function is bound.
    pub(super) bound: Option<Seat>,
}

/// Asks a switch which device is plugged into one of its ports.
pub(super) fn plugged_at(switch: &Switch, port: u8) -> Result<Plugged> {
    let bytes = {
        let mut locked = switch.lock()?;
        let bytes = fetch(&mut locked, port);
        // End the dump, even after a failure.
        let ended = locked.send(Command::Dump, &part(0, DUMP_FINISH));
        let bytes = bytes?;
        ended?;
        bytes
    };
    read(&bytes).map_err(|why| switch.malformed(Command::Dump, format!("port {port}: {why}")))
}

fn part(port: u8, part: u32) -> DumpRequest {
    let subcommand = DUMP_ENDPOINT_PORT;
    DumpRequest { subcommand, port, reserved_2: [0; 2], part: part.into() }
}

fn fetch(locked: &mut LockedSwitch<'_>, port: u8) -> Result<Vec<u8>> {
    let started: DumpStarted = locked.ask(Command::Dump, &part(port, DUMP_START))?;
    let whole = usize::try_from(started.dwords.get()).unwrap_or(usize::MAX);
    if whole > MOST_DWORDS {
        let why = format!("a dump of {whole} dwords for port {port}");
        return Err(locked.switch().malformed(Command::Dump, why));
    }
    let mut bytes = Vec::with_capacity(whole * 4);
    while bytes.len() < whole * 4 {
        let offset = u32::try_from(bytes.len() / 4).unwrap_or(u32::MAX);
        let head = part(port, DUMP_GET);
        let piece: DumpPiece =
            locked.ask(Command::Dump, &DumpGet { head, offset: offset.into() })?;
        bytes.extend_from_slice(data_of(&piece, locked.switch())?);
    }
    bytes.truncate(whole * 4);
    Ok(bytes)
}

fn data_of<'a>(piece: &'a DumpPiece, switch: &Switch) -> Result<&'a [u8]> {
    let stated = usize::try_from(piece.dwords.get()).unwrap_or(usize::MAX).min(DUMP_MOST);
    let wrong = || switch.malformed(Command::Dump, format!("a piece of {stated} dwords"));
    let dwords = stated.checked_sub(DUMP_HEAD).filter(|length| *length > 0).ok_or_else(wrong)?;
    piece.data.get(..dwords * 4).ok_or_else(wrong)
}

type Read<T> = std::result::Result<T, String>;

fn read(bytes: &[u8]) -> Read<Plugged> {
    let (_, bytes) = head::<SectionHead>(bytes)?;
    let (port, bytes) = head::<PortHead>(bytes)?;
    match port.kind {
        PORT_IS_EMPTY => Ok(Plugged::Nothing),
        PORT_HAS_SWITCH => Ok(Plugged::Other("a switch".to_owned())),
        PORT_HAS_ENDPOINT => endpoint(bytes),
        kind => Err(format!("{kind:02X}h is not a known kind of port")),
    }
}

fn head<T: FromBytes + FromZeros + KnownLayout + Immutable>(bytes: &[u8]) -> Read<(T, &[u8])> {
    T::read_from_prefix(bytes)
        .map_err(|_| format!("the dump ends {} bytes after a header", bytes.len()))
}

fn endpoint(bytes: &[u8]) -> Read<Plugged> {
    let (attachment, bytes) = head::<AttachmentHead>(bytes)?;
    let count = usize::from(attachment.functions.get());
    let stated = of_24(attachment.dwords) * 4;
    let needed = size_of::<AttachmentHead>() + count * size_of::<FunctionEntry>();
    if stated != needed {
        return Err(format!("{count} functions in {stated} bytes instead of {needed}"));
    }
    let mut entries = Vec::with_capacity(count);
    let mut rest = bytes;
    for _ in 0..count {
        let (entry, after) = head::<FunctionEntry>(rest)?;
        entries.push(entry);
        rest = after;
    }
    match entries.split_first() {
        None => Ok(Plugged::Nothing),
        Some((first, _)) if first.class != CLASS_NVME => {
            let (vendor, device) = (first.vendor.get(), first.device.get());
            Ok(Plugged::Other(format!("{vendor:04x}:{device:04x}, which is no NVMe drive")))
        }
        Some((first, rest)) => functions(first, rest).map(Plugged::Drive),
    }
}

/// Checks that the physical function comes first and that the virtual functions follow in the order of their numbers:
/// this order determines which host gets which function.
fn functions(first: &FunctionEntry, rest: &[FunctionEntry]) -> Read<Functions> {
    if first.kind == FUNCTION_IS_VIRTUAL {
        return Err("the first function is virtual".to_owned());
    }
    if let Some(other) = rest.iter().find(|entry| entry.kind != FUNCTION_IS_VIRTUAL) {
        return Err(format!("function {:04X}h is a second physical function", other.pdfid.get()));
    }
    if !rest.is_sorted_by(|a, b| a.number.get() < b.number.get()) {
        return Err("its virtual functions are not in order".to_owned());
    }
    let function = |entry: &FunctionEntry| Function {
        pdfid: entry.pdfid.get(),
        bound: (entry.bound != 0).then_some(Seat {
            host: Port { pax: entry.bound_pax, port: entry.bound_port },
            logical: entry.bound_logical,
        }),
    };
    Ok(Functions {
        physical: first.pdfid.get(),
        virtual_functions: rest.iter().map(function).collect(),
    })
}

#[cfg(test)]
mod tests {
    use zerocopy::IntoBytes;

    use super::*;

    fn entry(number: u16, kind: u8) -> FunctionEntry {
        let mut entry = FunctionEntry::new_zeroed();
        entry.number = number.into();
        entry.pdfid = (0x1000 + number).into();
        entry.kind = kind;
        entry.class = CLASS_NVME;
        entry
    }

    fn dump(kind: u8, entries: &[FunctionEntry]) -> Vec<u8> {
        let mut port = PortHead::new_zeroed();
        port.kind = kind;
        let mut attachment = AttachmentHead::new_zeroed();
        attachment.functions = u16::try_from(entries.len()).unwrap().into();
        attachment.dwords[0] = u8::try_from(2 + entries.len() * 9).unwrap();
        [SectionHead::new_zeroed().as_bytes(), port.as_bytes(), attachment.as_bytes()]
            .into_iter()
            .chain(entries.iter().map(IntoBytes::as_bytes))
            .collect::<Vec<_>>()
            .concat()
    }

    #[test]
    fn a_dump_of_a_drive_gives_its_functions_and_their_hosts() {
        let mut taken = entry(2, 0);
        (taken.bound, taken.bound_pax, taken.bound_port, taken.bound_logical) = (1, 1, 34, 5);
        let read = read(&dump(0, &[entry(0, 3), entry(1, 0), taken])).unwrap();
        let Plugged::Drive(functions) = read else { panic!("{read:?}") };
        assert_eq!(functions.physical, 0x1000);
        let seat = Seat { host: Port { pax: 1, port: 34 }, logical: 5 };
        assert_eq!(
            functions.virtual_functions,
            [
                Function { pdfid: 0x1001, bound: None },
                Function { pdfid: 0x1002, bound: Some(seat) }
            ]
        );
    }

    #[test]
    fn read_recognises_empty_ports_and_devices_that_are_no_drives() {
        assert_eq!(read(&dump(2, &[])).unwrap(), Plugged::Nothing);
        assert!(matches!(read(&dump(1, &[])).unwrap(), Plugged::Other(_)));
        let mut card = entry(0, 1);
        (card.class, card.vendor) = ([0, 0, 2], 0x15b3.into());
        let Plugged::Other(stated) = read(&dump(0, &[card])).unwrap() else { panic!() };
        assert_eq!(stated, "15b3:0000, which is no NVMe drive");
    }

    #[test]
    fn malformed_dumps_are_errors() {
        let whole = dump(0, &[entry(0, 3), entry(1, 0)]);
        for (bytes, stated) in [
            (&whole[..whole.len() - 1], "the dump ends"),
            (&whole[..10], "the dump ends"),
            (&dump(3, &[])[..], "03h is not a known kind of port"),
            (&dump(0, &[entry(1, 0)]), "the first function is virtual"),
            (&dump(0, &[entry(0, 3), entry(1, 3)]), "a second physical function"),
            (&dump(0, &[entry(0, 3), entry(2, 0), entry(1, 0)]), "not in order"),
        ] {
            let error = read(bytes).unwrap_err();
            assert!(error.contains(stated), "{error}");
        }
        let mut short = whole;
        short[24] = 2;
        assert!(read(&short).unwrap_err().contains("2 functions in 8 bytes instead of 80"));
    }
}
