//! Tests records of the exchanges with a switch, and their replay.

use super::*;

fn bring_up(devices: Arc<dyn Devices>) -> Result<Vec<(u8, String)>, String> {
    // `devices` must have only one drive: with several drives, the order of the commands would change from run to run,
    // and a replay would fail.
    let fabric = Fabric::over(devices, EAGER);
    let found = fabric.found();
    found.iter().try_for_each(ready)?;
    Ok(places(&found))
}

fn record(directory: &Path) -> io::Result<String> {
    let (chassis, drives) = chassis(&[0]);
    drives[&0].state().down = [(2, Down { stuck: true, ..Down::default() })].into();
    let path = directory.join("switches");
    let recorded = Recorded::new(Box::new(chassis), &path)?;
    assert_eq!(bring_up(Arc::new(recorded)).unwrap(), [(0, nqn(0).to_string())]);
    std::fs::read_to_string(path)
}

#[test]
fn bringing_up_a_drive_again_from_the_record_sends_exactly_the_recorded_commands() {
    let directory = tempfile::tempdir().unwrap();
    let record = record(directory.path()).unwrap();
    let replayed = Replayed::new(&record);
    assert_eq!(bring_up(Arc::new(replayed.clone())).unwrap(), [(0, nqn(0).to_string())]);
    assert_eq!(replayed.unreplayed(), 0, "every recorded exchange was replayed");
}

#[test]
fn a_replay_fails_when_the_record_lacks_a_command() {
    let directory = tempfile::tempdir().unwrap();
    let record = record(directory.path()).unwrap();
    // The record lacks the command that binds function 1001h to the rabbit.
    let bind = record.lines().find(|line| line.contains(" 007c0084 ")).unwrap();
    assert!(bind.starts_with("switchtec0 007c0084 010018000110"), "{bind}");
    let without = record.replace(&format!("{bind}\n"), "");
    assert!(bring_up(Arc::new(Replayed::new(&without))).unwrap_err().contains("the record has"));
}

/// Returns the recorded lines of one admin command.
fn recorded_lines(ask: impl FnOnce(&Admin)) -> Vec<String> {
    let (chassis, _) = chassis(&[0]);
    chassis.with(at(0), |drive| drive.tunnel = Opens::Open);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("switches");
    let devices = Recorded::new(Box::new(chassis), &path).unwrap();
    let switch = Arc::new(Switch::new(0, Arc::new(devices)));
    ask(&Admin::new(Box::new(Tunnel::new(switch, 0x1000, PATIENCE))));
    let record = std::fs::read_to_string(path).unwrap();
    record.lines().map(ToOwned::to_owned).collect()
}

/// Checks the start of a line: device, word, request.
fn begins(line: &str, word: &str, request: &str) {
    let expected = format!("switchtec0 {word} {request}");
    assert!(line.starts_with(&expected), "{expected}\n{line}");
}

#[test]
fn a_read_command_is_started_fetched_and_ended() {
    let lines = recorded_lines(|admin| assert_eq!(admin.controller().unwrap().controller.get(), 0));
    let [pax, tunnel, start, data @ .., end] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!(pax, "switchtec0 007c0081 - 4 = 00000000 00000000");
    assert_eq!(
        tunnel, "switchtec0 007c008f 0200001004000000 8 = 00000000 0400000001000000",
        "the command reads 4 bytes: the status of function 1000h"
    );
    // Pass-through: subcommand, PDFID, 16 + 4096 expected bytes, no further piece, offset, length; then the admin
    // command: opcode, NSID, CDW10.
    let sqe = format!("06000000{}{}01000000", "00".repeat(4), "00".repeat(32));
    begins(start, "007c0091", &format!("010000000010101000000000000040{}{sqe}", "00"));
    assert!(start.contains(" 4 = 00000000 10100000"), "4112 bytes are there");
    assert_eq!(data.len(), 5, "4112 bytes in pieces of 1020");
    for (line, offset) in data.iter().zip(["0000", "fc03", "f807", "f40b", "f00f"]) {
        begins(line, "007c0091", &format!("020000000010{offset} 1024 = "));
    }
    assert_eq!(end, "switchtec0 007c0091 0300000000100000 0 = 00000000 -");
}

#[test]
fn data_for_a_drive_is_sent_in_pieces_and_the_last_piece_starts_the_command() {
    let lines = recorded_lines(|admin| {
        assert!(admin.attach(7, 0x1234).is_err(), "there is no namespace 7");
    });
    let starts: Vec<_> = lines.iter().filter(|line| line.contains(" 007c0091 01")).collect();
    assert_eq!(starts.len(), 5, "64 + 4096 bytes in pieces of 1008");
    let head = |expected, more, offset, length| {
        format!("010000000010{expected}{more}000000{offset}{length}")
    };
    let sqe = format!("1500000007000000{}{}", "00".repeat(32), "00".repeat(24));
    begins(starts[0], "007c0091", &format!("{}{sqe}01003412", head("0000", "01", "0000", "f003")));
    begins(starts[1], "007c0091", &head("0000", "01", "f003", "f003"));
    begins(starts[3], "007c0091", &head("0000", "01", "d00b", "f003"));
    begins(starts[4], "007c0091", &head("1010", "00", "c00f", "8000"));
    assert!(starts[3].ends_with(" 0 = 00000000 -"), "only the last piece is answered");
}
