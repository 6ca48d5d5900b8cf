//! Resets a function through the registers of its configuration space (PCI Express Base Specification, 7.5).

use zerocopy::FromZeros;

use super::{
    command::Command,
    switch::{Result, Switch},
    wire::{REGISTER_READ, REGISTER_WRITE, RegisterRequest, RegisterWrite},
};

/// Address of the Capabilities Pointer.
const FIRST: u16 = 0x34;
/// Mask for the address of a capability, which is a multiple of four.
const ALIGNED: u16 = 0xfc;
/// Capability ID of PCI Express.
const PCI_EXPRESS: u8 = 0x10;
/// Offset of the register Device Control within that capability, and the register's bit Initiate Function Level Reset.
const DEVICE_CONTROL: u16 = 0x08;
const INITIATE_RESET: u16 = 1 << 15;
/// Maximum number of capabilities that fit into the configuration space: a list with more entries is circular.
const MOST_CAPABILITIES: usize = 48;

/// Resets one function; the drive's other functions keep running.
pub(super) fn reset(switch: &Switch, pdfid: u16) -> Result<()> {
    let express = express(switch, pdfid)?;
    let at = express + DEVICE_CONTROL;
    let control = u16::from_le_bytes(read(switch, pdfid, at)?);
    write(switch, pdfid, at, control | INITIATE_RESET)
}

fn express(switch: &Switch, pdfid: u16) -> Result<u16> {
    let [first] = read(switch, pdfid, FIRST)?;
    let mut at = u16::from(first) & ALIGNED;
    for _ in 0..MOST_CAPABILITIES {
        if at == 0 {
            break;
        }
        let [id, next] = read(switch, pdfid, at)?;
        if id == PCI_EXPRESS {
            return Ok(at);
        }
        at = u16::from(next) & ALIGNED;
    }
    let why = format!("function {pdfid:04X}h has no PCI Express capability");
    Err(switch.malformed(Command::Register, why))
}

fn request(subcommand: u8, pdfid: u16, address: u16, length: u8) -> RegisterRequest {
    let mut request = RegisterRequest::new_zeroed();
    request.subcommand = subcommand;
    request.pdfid = pdfid.into();
    request.address = address.into();
    request.length = length;
    request
}

fn read<const N: usize>(switch: &Switch, pdfid: u16, address: u16) -> Result<[u8; N]> {
    let length = u8::try_from(N).unwrap_or(4);
    let register: [u8; 4] =
        switch.ask(Command::Register, &request(REGISTER_READ, pdfid, address, length))?;
    let mut bytes = [0; N];
    bytes.copy_from_slice(&register[..N]);
    Ok(bytes)
}

fn write(switch: &Switch, pdfid: u16, address: u16, value: u16) -> Result<()> {
    let mut data = [0; 4];
    data[..2].copy_from_slice(&value.to_le_bytes());
    let head = request(REGISTER_WRITE, pdfid, address, 2);
    switch.send(Command::Register, &RegisterWrite { head, data })
}
