//! Reads memory and load (proc_meminfo(5), proc_loadavg(5), Documentation/accounting/psi.rst). The result is `None` if
//! the kernel does not show a value.

use std::{path::Path, thread};

use procfs::{FromRead, LoadAverage, Meminfo, MemoryPressure};
use storage::health::{Load, Memory, Pressure};

pub(super) fn memory(proc: &Path) -> Option<Memory> {
    let meminfo = Meminfo::from_file(proc.join("meminfo")).ok()?;
    Some(Memory { total: meminfo.mem_total, available: meminfo.mem_available? })
}

pub(super) fn load(proc: &Path) -> Option<Load> {
    let average = LoadAverage::from_file(proc.join("loadavg")).ok()?;
    let processors = thread::available_parallelism().ok()?.get().try_into().ok()?;
    Some(Load { hundredths: hundredths(average.five), processors })
}

pub(super) fn pressure(proc: &Path) -> Option<Pressure> {
    let pressure = MemoryPressure::from_file(proc.join("pressure/memory")).ok()?;
    Some(Pressure { memory: hundredths(pressure.full.avg60) })
}

/// Converts an average to hundredths: the kernel writes two decimal places, never a negative number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "whole and not negative"
)]
fn hundredths(average: f32) -> u64 {
    (f64::from(average) * 100.0).round() as u64
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn memory_load_and_pressure_are_read_from_proc() {
        let proc = tempfile::tempdir().unwrap();
        assert_eq!(
            (memory(proc.path()), load(proc.path()), pressure(proc.path())),
            (None, None, None)
        );
        let put = |file: &str, text: &str| fs::write(proc.path().join(file), text).unwrap();
        put(
            "meminfo",
            &fs::read_to_string("/proc/meminfo")
                .unwrap()
                .lines()
                .map(|line| match line {
                    _ if line.starts_with("MemTotal:") => {
                        "MemTotal:       24605084 kB\n".to_owned()
                    }
                    _ if line.starts_with("MemAvailable:") => {
                        "MemAvailable:   23068672 kB\n".to_owned()
                    }
                    _ => format!("{line}\n"),
                })
                .collect::<String>(),
        );
        put("loadavg", "2.85 1.72 0.77 3/210 17596\n");
        fs::create_dir(proc.path().join("pressure")).unwrap();
        let some = "some avg10=9.00 avg60=8.00 avg300=7.00 total=99\n";
        put("pressure/memory", &format!("{some}full avg10=0.00 avg60=12.07 avg300=0.00 total=5\n"));
        let memory = memory(proc.path()).unwrap();
        assert_eq!((memory.total, memory.available), (24_605_084 << 10, 23_068_672 << 10));
        assert_eq!(load(proc.path()).unwrap().hundredths, 172);
        assert_eq!(pressure(proc.path()), Some(Pressure { memory: 1207 }));
    }

    #[test]
    fn memory_and_load_of_this_kernel_are_readable() {
        let proc = Path::new("/proc");
        assert!(memory(proc).is_some_and(|memory| memory.available <= memory.total));
        assert!(load(proc).is_some_and(|load| load.processors > 0));
    }
}
