//! Memory and load (proc_meminfo(5), proc_loadavg(5), Documentation/accounting/psi.rst). What a kernel does not show is left
//! out.

use std::{fs, path::Path, thread};

use crate::health::{Load, Memory, Pressure};

pub(super) fn memory(proc: &Path) -> Option<Memory> {
    let text = fs::read_to_string(proc.join("meminfo")).ok()?;
    let bytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
        kibibytes.checked_mul(1024)
    };
    Some(Memory { total: bytes("MemTotal:")?, available: bytes("MemAvailable:")? })
}

pub(super) fn load(proc: &Path) -> Option<Load> {
    let text = fs::read_to_string(proc.join("loadavg")).ok()?;
    let hundredths = hundredths(text.split(' ').nth(1)?)?;
    let processors = thread::available_parallelism().ok()?.get().try_into().ok()?;
    Some(Load { hundredths, processors })
}

pub(super) fn pressure(proc: &Path) -> Option<Pressure> {
    let text = fs::read_to_string(proc.join("pressure/memory")).ok()?;
    let full = text.lines().find_map(|line| line.strip_prefix("full "))?;
    let memory = hundredths(full.split(' ').find_map(|word| word.strip_prefix("avg60="))?)?;
    Some(Pressure { memory })
}

/// `12.34` in hundredths: the kernel writes two places.
fn hundredths(text: &str) -> Option<u64> {
    let (whole, rest) = text.split_once('.')?;
    let rest: u64 = (rest.len() == 2).then(|| rest.parse().ok())??;
    whole.parse::<u64>().ok()?.checked_mul(100)?.checked_add(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_writes_is_read() {
        let proc = tempfile::tempdir().unwrap();
        assert_eq!(
            (memory(proc.path()), load(proc.path()), pressure(proc.path())),
            (None, None, None)
        );
        let put = |file: &str, text: &str| fs::write(proc.path().join(file), text).unwrap();
        put(
            "meminfo",
            "MemTotal:       24605084 kB\nMemFree:  1 kB\nMemAvailable:   23068672 kB\n",
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
    fn this_kernel_shows_its_memory_and_its_load() {
        let proc = Path::new("/proc");
        assert!(memory(proc).is_some_and(|memory| memory.available <= memory.total));
        assert!(load(proc).is_some_and(|load| load.processors > 0));
    }
}
