use storage::observed::{Percent, PoolHealth};

use super::*;

/// Output of `zpool status -Pp` for a pool of RAID-Z2 that lost a disk (OpenZFS 2.0; from a question on a public site,
/// shortened to three disks). With `-L` the links would be resolved.
const DEGRADED: &str = "\
  pool: tank01
 state: DEGRADED
status: One or more devices are faulted in response to persistent errors.
        Sufficient replicas exist for the pool to continue functioning in a
        degraded state.
action: Replace the faulted device, or use 'zpool clear' to mark the device
        repaired.
  scan: resilvered 10.9T in 1 days 11:05:07 with 0 errors on Mon Jan 10 11:34:02 2022
config:

        NAME                                              STATE     READ WRITE CKSUM
        tank01                                            DEGRADED     0     0     0
          raidz2-0                                        DEGRADED     0     0     0
            /dev/disk/by-id/wwn-0x50000398b8c8d14b-part1  ONLINE       0     0     0
            /dev/disk/by-id/wwn-0x50000399e8d313d9-part1  ONLINE       0     0     0
            /dev/disk/by-id/wwn-0x50000399f8c8c075-part1  FAULTED     12    47     0  too many errors

errors: No known data errors
";

/// A pool in which a disk is replacing an absent disk: from the issue tracker of OpenZFS, with the tabs
/// that `zpool status` prints.
const REPLACING: &str = "\
  pool: ZFS01
 state: DEGRADED
  scan: resilvered 136K in 0h0m with 0 errors on Mon Dec  7 06:23:52 2015
config:

\tNAME                              STATE     READ WRITE CKSUM
\tZFS01                             DEGRADED     0     0     0
\t  raidz2-0                        DEGRADED     0     0     0
\t    /dev/sda1                     ONLINE       0     0     0
\t    replacing-6                   DEGRADED     0     0     0
\t      /dev/sdb1                   ONLINE       0     0     0
\t      127286639182292558          UNAVAIL      0     0     0  was /dev/disk/by-id/ata-WDC_WD30EZRX-00DC0B0_WD-WMC1T0419233-part1
\tlogs
\t  /dev/sdc1                       ONLINE       0     0     0
\tspares
\t  /dev/sdd                        AVAIL

errors: No known data errors
";

/// A pool, and a pool whose disks have changed: from the issue tracker of OpenZFS.
const IMPORTABLE: &str = "\
   pool: testpsko
     id: 11983299557685846606
  state: ONLINE
 action: The pool can be imported using its name or numeric identifier.
 config:

        testpsko                                      ONLINE
          /mnt/filling/store/nabijaczleweli/testpsko  ONLINE

   pool: tank
     id: 3589532515861118860
  state: UNAVAIL
 status: One or more devices contains corrupted data.
 action: The pool cannot be imported due to damaged devices or data.
   see: http://zfsonlinux.org/msg/ZFS-8000-5E
 config:

\ttank                                            UNAVAIL  insufficient replicas
\t  mirror-1                                      UNAVAIL  insufficient replicas
\t    ata-INTEL_SSDSC2BB800G4_BTWL413204Z7800RGN  UNAVAIL
";

/// Output of `zpool status` of ZFS 2.1.11 on a virtual machine, for a pool on two whole namespaces.
const STRIPED: &str = "  pool: pool-a4f0c1de-5d7f-4c1b-9f6e-0c0e7d0f8a11-ost-0
 state: ONLINE
config:

\tNAME                                             STATE     READ WRITE CKSUM
\tpool-a4f0c1de-5d7f-4c1b-9f6e-0c0e7d0f8a11-ost-0  ONLINE       0     0     0
\t  /dev/nvme0n1p1                                 ONLINE       0     0     0
\t  /dev/nvme1n1p1                                 ONLINE       0     0     0

errors: No known data errors
";

/// Output of `zpool import` for the same pool after its export; the search covered two namespaces and the first
/// partition of each.
const EXPORTED: &str = "   pool: pool-a4f0c1de-5d7f-4c1b-9f6e-0c0e7d0f8a11-ost-0
     id: 2253686979328346192
  state: ONLINE
 action: The pool can be imported using its name or numeric identifier.
 config:

\tpool-a4f0c1de-5d7f-4c1b-9f6e-0c0e7d0f8a11-ost-0  ONLINE
\t  nvme0n1                                        ONLINE
\t  nvme1n1                                        ONLINE
";

/// Output of `zpool status` of ZFS 2.1.11 for a mirror that was imported without one of its two drives, a moment after
/// `zpool replace`.
const LOST: &str = "  pool: mir
 state: DEGRADED
  scan: resilvered 552K in 00:00:03 with 0 errors on Sun Nov 22 07:55:15 2026
config:

\tNAME                       STATE     READ WRITE CKSUM
\tmir                        DEGRADED     0     0     0
\t  mirror-0                 DEGRADED     0     0     0
\t    replacing-0            DEGRADED     0     0     0
\t      4728891103404860041  UNAVAIL      0     0     0  was /dev/nvme1n1p1
\t      /dev/nvme3n1p1       ONLINE       0     0     0
\t    /dev/nvme2n1p1         ONLINE       0     0     0

errors: No known data errors
";

/// Output of `zpool import` for the same mirror before its import.
const LACKING: &str = "   pool: mir
     id: 13343988951481924688
  state: DEGRADED
status: One or more devices contains corrupted data.
 action: The pool can be imported despite missing or damaged devices.  The
\tfault tolerance of the pool may be compromised if imported.
   see: https://openzfs.github.io/openzfs-docs/msg/ZFS-8000-4J
 config:

\tmir          DEGRADED
\t  mirror-0   DEGRADED
\t    nvme1n1  UNAVAIL
\t    nvme2n1  ONLINE
";

fn names_and_states(leaves: &[Leaf]) -> Vec<(&str, &str)> {
    leaves.iter().map(|leaf| (leaf.name.as_str(), leaf.state.as_str())).collect()
}

#[test]
fn read_status_returns_only_the_leaves_of_a_pool_as_devices() {
    let Status { health, leaves, .. } = read_status(DEGRADED, "tank01").unwrap();
    assert_eq!(health, PoolHealth::Degraded);
    let wwn = |name| format!("/dev/disk/by-id/wwn-{name}-part1");
    assert_eq!(
        names_and_states(&leaves),
        [
            (&*wwn("0x50000398b8c8d14b"), "ONLINE"),
            (&*wwn("0x50000399e8d313d9"), "ONLINE"),
            (&*wwn("0x50000399f8c8c075"), "FAULTED")
        ]
    );
    let Status { leaves, .. } = read_status(REPLACING, "ZFS01").unwrap();
    assert_eq!(
        names_and_states(&leaves),
        [
            ("/dev/sda1", "ONLINE"),
            ("/dev/sdb1", "ONLINE"),
            ("127286639182292558", "UNAVAIL"),
            ("/dev/sdc1", "ONLINE"),
            ("/dev/sdd", "AVAIL")
        ]
    );
}

#[test]
fn the_status_of_a_pool_on_namespaces_is_parsed() {
    let name = "pool-a4f0c1de-5d7f-4c1b-9f6e-0c0e7d0f8a11-ost-0";
    let Status { health, leaves, .. } = read_status(STRIPED, name).unwrap();
    assert_eq!(health, PoolHealth::Online);
    assert_eq!(
        names_and_states(&leaves),
        [("/dev/nvme0n1p1", "ONLINE"), ("/dev/nvme1n1p1", "ONLINE")]
    );
    let found = read_found(EXPORTED).unwrap();
    assert_eq!(found, [FoundPool { name: name.to_owned(), health: PoolHealth::Online }]);
    let target = Dataset::new(name, "ost").unwrap();
    let whole = format!("{name}\t-\n{name}/ost\taaaaaaab:OST0000\n");
    assert_eq!(read_state(&whole, &target), Ok(DatasetState::Whole));
}

#[test]
fn the_status_of_a_mirror_that_lost_a_namespace_is_parsed() {
    let found = read_found(LACKING).unwrap();
    assert_eq!(found, [FoundPool { name: "mir".to_owned(), health: PoolHealth::Degraded }]);
    let Status { health, leaves, .. } = read_status(LOST, "mir").unwrap();
    assert_eq!(health, PoolHealth::Degraded);
    let used = [("/dev/nvme3n1p1", "ONLINE"), ("/dev/nvme2n1p1", "ONLINE")];
    assert_eq!(names_and_states(&leaves)[0], ("4728891103404860041", "UNAVAIL"));
    assert_eq!(names_and_states(&leaves)[1..], used);
}

/// The default profile makes pools with several top-level vdevs, and beneath each of them the row that marks a
/// replacement may have the same name, so the test has two rows `replacing-0`.
#[test]
fn a_device_that_zfs_is_replacing_counts_as_replaced_and_not_as_missing() {
    let places = |text: &str, pool: &str| -> Vec<_> {
        let leaves = read_status(text, pool).unwrap().leaves.into_iter();
        leaves.map(|leaf| (leaf.is_replaced, leaf.state == "UNAVAIL")).collect()
    };
    assert_eq!(places(LOST, "mir"), [(true, true), (false, false), (false, false)]);
    let leaf = &read_status(LOST, "mir").unwrap().leaves[0];
    assert_eq!(leaf.clone().resolved(&[]).unwrap().device, VdevDevice::Replaced);
    let lost_too = LOST.replace("/dev/nvme3n1p1       ONLINE ", "/dev/nvme3n1p1       UNAVAIL");
    assert_eq!(places(&lost_too, "mir")[..2], [(false, true), (false, true)]);
    let (rows, _) = LOST.split_once("\t    /dev/nvme2n1p1").unwrap();
    let second = "\t  mirror-1                 DEGRADED     0     0     0
\t    replacing-0            DEGRADED     0     0     0
\t      4728891103404860042  UNAVAIL      0     0     0  was /dev/nvme4n1p1
\t      /dev/nvme5n1p1       UNAVAIL      0     0     0\n\n";
    let two = places(&format!("{rows}{second}"), "mir");
    assert_eq!(two, [(true, true), (false, false), (false, true), (false, true)]);
    let spare = LOST.replace("replacing-0", "spare-0    ");
    assert_eq!(
        places(&spare, "mir")[0],
        (false, true),
        "a hot spare does not replace the lost device for good"
    );
}

#[test]
fn read_status_fails_for_a_truncated_status_and_for_another_pool() {
    assert!(read_status("", "tank01").unwrap_err().contains("no state"));
    let (head, _) = DEGRADED.split_once("        NAME").unwrap();
    assert!(read_status(head, "tank01").unwrap_err().contains("no config"));
    assert!(read_status(DEGRADED, "tank02").unwrap_err().contains("tank01"));
    let strange = DEGRADED.replace("  ONLINE       0     0     0", "");
    assert!(read_status(&strange, "tank01").unwrap_err().contains("wwn-"));
}

#[test]
fn importable_pools_are_listed_with_their_states() {
    let found = read_found(IMPORTABLE).unwrap();
    let states: Vec<_> = found.iter().map(|pool| (pool.name.as_str(), &pool.health)).collect();
    let broken = PoolHealth::Broken("UNAVAIL".to_owned());
    assert_eq!(states, [("testpsko", &PoolHealth::Online), ("tank", &broken)]);
    assert_eq!(read_found("").unwrap(), []);
    let (cut, _) = IMPORTABLE.split_once("  state:").unwrap();
    assert!(read_found(cut).unwrap_err().contains("testpsko"));
}

/// The target of this test is a management target, whose `lustre:svname` is `MGS` (according to a published guide).
/// Every kind of target has this property, and mkfs.lustre writes it last.
#[test]
fn a_lustre_target_is_complete_once_its_last_property_is_written() {
    let state = |text: &str| read_state(text, &Dataset::new("mgspool", "mgt").unwrap());
    assert_eq!(state("mgspool\t-\nmgspool/mgt\tMGS\n"), Ok(DatasetState::Whole));
    assert_eq!(state("mgspool\t-\nmgspool/mgt\t-\n"), Ok(DatasetState::HalfMade));
    assert_eq!(state("mgspool\t-\nmgspool/mgt2\tMGS\n"), Ok(DatasetState::Absent));
    assert!(state("mgspool\n").unwrap_err().contains("mgspool"));
}

#[test]
fn a_lost_device_is_missing_and_a_device_outside_the_allocation_is_foreign() {
    let resolved = |name: &str, state: &str| {
        let (name, state) = (name.to_owned(), state.to_owned());
        Leaf { name, state, is_replaced: false }.resolved(&[]).unwrap().device
    };
    assert_eq!(resolved("127286639182292558", "UNAVAIL"), VdevDevice::Missing);
    assert_eq!(resolved("/dev/null", "UNAVAIL"), VdevDevice::Missing);
    assert_eq!(resolved("/dev/null", "ONLINE"), VdevDevice::Foreign);
    // Seen in an idle pool of a virtual machine, seconds after its drive was removed.
    assert_eq!(resolved("/dev/no-such-device", "ONLINE"), VdevDevice::Missing);
}

#[test]
fn command_lets_an_import_search_only_the_given_devices() {
    let line = command(ZfsAction::Import, "-d /dev/nvme0n1 -d /dev/nvme0n1p1", "pool-a-ost-0");
    assert_eq!(
        line,
        "zpool import -N -o cachefile=none -d /dev/nvme0n1 -d /dev/nvme0n1p1 pool-a-ost-0"
    );
    assert_eq!(command(ZfsAction::Destroy, "", "pool-a-ost-0"), "zpool destroy pool-a-ost-0");
    assert_eq!(command(ZfsAction::Format, "", "--ost p/ost"), "mkfs -t lustre --ost p/ost");
}

#[test]
fn a_resilvered_pool_reports_its_progress() {
    let percent = |text: &str, pool| read_status(text, pool).unwrap().resilvered;
    assert_eq!(percent(DEGRADED, "tank01"), None, "the last resilver has ended");
    assert_eq!(percent(STRIPED, "pool-a4f0c1de-5d7f-4c1b-9f6e-0c0e7d0f8a11-ost-0"), None);
    assert_eq!(
        percent(LOST, "mir"),
        Some(Percent::default()),
        "the lost device is still in the pool"
    );
    let running = LOST.replace(
        "resilvered 552K in 00:00:03 with 0 errors on Sun Nov 22 07:55:15 2026",
        "resilver in progress since Sun Nov 22 07:55:12 2026\n\t1.21G scanned at 12.3M/s, 45.6M issued at 1.2M/s, 1.50G total\n\t12.3M resilvered, 3.04% done, 00:20:12 to go",
    );
    assert_eq!(percent(&running, "mir"), Some("3.04".parse().unwrap()));
}
