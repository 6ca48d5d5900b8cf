//! Tests of the store on a drive that loses power, and with it all or some of the unsynced data.

use super::{Disk, DiskError, Fill, Store, StoreFile, put, rows, submit, value};
use redb::{Builder, Database, StorageBackend};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, mpsc};

/// Unit that a drive writes completely or not at all, in bytes.
const SECTOR: usize = 512;
/// Number of changes that the log keeps: so few that some power cuts interrupt its trimming.
const HISTORY: usize = 8;
const WRITES: u64 = 14;

/// A drive with a volatile cache. Its power fails in the sync number `cut_at`.
#[derive(Debug, Clone)]
struct Drive(Arc<Mutex<Platter>>);

#[derive(Debug, Default)]
struct Platter {
    /// Contents that survive a power cut.
    stable: Vec<u8>,
    /// Contents that readers see.
    cached: Vec<u8>,
    /// Changes from `stable` to `cached`, oldest first.
    pending: Vec<Change>,
    syncs: u32,
    cut_at: Option<u32>,
    dead: bool,
    /// Latest acknowledged revision. It survives the power cut, so that the test fails if the store is behind this
    /// revision.
    acknowledged: Option<u64>,
}

#[derive(Debug)]
enum Change {
    Write { offset: usize, data: Vec<u8> },
    Length(usize),
}

/// The unsynced sectors that survive a power cut.
#[derive(Debug, Clone, Copy)]
enum Survivors {
    None,
    All,
    /// About half of the unsynced sectors, chosen by the seed.
    Some(u64),
}

impl Drive {
    fn new(cut_at: Option<u32>) -> Self {
        Self(Arc::new(Mutex::new(Platter { cut_at, ..Platter::default() })))
    }

    fn platter(&self) -> MutexGuard<'_, Platter> {
        self.0.lock().unwrap()
    }

    fn alive(&self) -> io::Result<MutexGuard<'_, Platter>> {
        let platter = self.platter();
        if platter.dead { Err(io::Error::other("the power is off")) } else { Ok(platter) }
    }

    /// Returns a drive with the contents that remain after the power cut.
    fn revived(&self, survivors: Survivors) -> Self {
        let mut platter = std::mem::take(&mut *self.platter());
        let mut seed = match survivors {
            Survivors::None | Survivors::All => 0,
            Survivors::Some(seed) => seed,
        };
        let mut survives = || match survivors {
            Survivors::None => false,
            Survivors::All => true,
            Survivors::Some(_) => {
                // A linear congruential generator (Knuth's MMIX), so that every run loses the same sectors.
                seed = seed
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                seed >> 63 == 1
            }
        };
        for change in std::mem::take(&mut platter.pending) {
            match change {
                Change::Length(length) if survives() => platter.stable.resize(length, 0),
                Change::Length(_) => {}
                Change::Write { offset, data } => {
                    for (index, sector) in data.chunks(SECTOR).enumerate() {
                        let start = offset + index * SECTOR;
                        // Sectors beyond the end of the file are lost.
                        if let Some(place) = platter.stable.get_mut(start..start + sector.len())
                            && survives()
                        {
                            place.copy_from_slice(sector);
                        }
                    }
                }
            }
        }
        let (stable, acknowledged) = (platter.stable, platter.acknowledged);
        let drive = Self::new(None);
        drive.platter().acknowledged = acknowledged;
        drive.platter().cached.clone_from(&stable);
        drive.platter().stable = stable;
        drive
    }
}

impl StorageBackend for Drive {
    fn len(&self) -> io::Result<u64> {
        Ok(self.alive()?.cached.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let platter = self.alive()?;
        let start = usize::try_from(offset).unwrap();
        let bytes = platter.cached.get(start..start + out.len());
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut platter = self.alive()?;
        let length = usize::try_from(len).unwrap();
        platter.cached.resize(length, 0);
        platter.pending.push(Change::Length(length));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut platter = self.alive()?;
        platter.syncs += 1;
        if platter.cut_at == Some(platter.syncs) {
            platter.dead = true;
            return Err(io::Error::other("the power went off"));
        }
        for change in std::mem::take(&mut platter.pending) {
            match change {
                Change::Length(length) => platter.stable.resize(length, 0),
                Change::Write { offset, data } => {
                    platter.stable[offset..offset + data.len()].copy_from_slice(&data);
                }
            }
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut platter = self.alive()?;
        let offset = usize::try_from(offset).unwrap();
        platter.cached[offset..offset + data.len()].copy_from_slice(data);
        platter.pending.push(Change::Write { offset, data: data.to_vec() });
        Ok(())
    }
}

impl StoreFile for Drive {
    fn open(&self, builder: &Builder) -> Result<Database, DiskError> {
        let database = builder.create_with_backend(self.clone());
        database.map_err(|error| DiskError::Open(error.into()))
    }

    fn renew(&self, _: Fill<'_>) -> Result<(), DiskError> {
        Err(DiskError::Create(io::Error::other("there is nothing but this drive")))
    }

    fn keep_copy(&self) {}

    fn remove_copy(&self) {}

    fn acknowledged(&self) -> Option<u64> {
        self.platter().acknowledged
    }

    fn acknowledge(&self, revision: u64) {
        self.platter().acknowledged = Some(revision);
    }
}

/// Returns a drive with a store on it, and power for `cut_at` syncs.
fn drive_with_store(cut_at: Option<u32>) -> Drive {
    let drive = Drive::new(None);
    let database = StoreFile::open(&drive, &Builder::new()).unwrap();
    rows::transact(&database, rows::make_tables).unwrap();
    drop(database);
    let mut platter = drive.platter();
    (platter.syncs, platter.cut_at) = (0, cut_at);
    drop(platter);
    drive
}

fn open(drive: &Drive) -> Result<Store, DiskError> {
    let (disk, rows) = Disk::with(Box::new(drive.clone()))?;
    Store::start(disk, rows, HISTORY, &[], super::rules())
}

/// Writes until the power fails. Returns the acknowledged writes, and the write that was in progress.
fn write(store: &Store) -> (BTreeMap<String, String>, Option<(String, String)>) {
    let mut acknowledged = BTreeMap::new();
    for round in 0..WRITES {
        let name = format!("m{}", round % 3);
        // Some of the writes make the file grow.
        let length = if round % 7 == 0 { 400_000 } else { 100 };
        let value = format!("{round}-{}", "x".repeat(length));
        if put(store, &name, &value).is_err() {
            return (acknowledged, Some((name, value)));
        }
        acknowledged.insert(name, value);
    }
    (acknowledged, None)
}

/// Cuts the power during the sync with number `cut_at`, and checks the contents at the next start.
fn cut(cut_at: u32, survivors: Survivors) {
    let at = format!("cut in sync {cut_at}, survivors {survivors:?}");
    let drive = drive_with_store(Some(cut_at));
    let (acknowledged, under_way) = match open(&drive) {
        Ok(store) => write(&store),
        Err(_) => (BTreeMap::new(), None),
    };
    let drive = drive.revived(survivors);
    let store = open(&drive).unwrap_or_else(|error| panic!("{at}: {error:?}"));
    for name in ["m0", "m1", "m2"] {
        let found = value(&store, name);
        let came_through = under_way
            .as_ref()
            .is_some_and(|(under_way, value)| under_way == name && found.as_ref() == Some(value));
        assert!(
            came_through || found.as_ref() == acknowledged.get(name),
            "{at}: {name} is {:?}",
            found.map(|value| value.get(..8).unwrap_or_default().to_owned())
        );
    }
    check_log(&store, &at);
    put(&store, "after", "1").unwrap();
    store.close();
    let store = open(&drive).unwrap();
    assert_eq!(value(&store, "after").as_deref(), Some("1"), "{at}");
}

/// Checks that the log has one event for each revision after its horizon.
fn check_log(store: &Store, at: &str) {
    let state = store.shared.read();
    let horizon = state.log.horizon();
    let events = state.log.since("configmaps", horizon, usize::MAX).unwrap();
    let revisions: Vec<u64> = events.iter().map(|event| event.revision).collect();
    assert_eq!(revisions, (horizon + 1..=state.revision).collect::<Vec<_>>(), "{at}");
}

#[test]
fn acknowledged_writes_survive_a_power_cut() {
    let whole = drive_with_store(None);
    let before = whole.platter().stable.len();
    let store = open(&whole).unwrap();
    let (acknowledged, _) = write(&store);
    assert_eq!(acknowledged.len(), 3);
    store.close();
    assert!(whole.platter().stable.len() > before, "the file must grow in this test");
    let syncs = whole.platter().syncs;
    assert!(u64::from(syncs) > WRITES, "{syncs} syncs for {WRITES} durable writes");
    for cut_at in 1..=syncs {
        for survivors in [Survivors::None, Survivors::All, Survivors::Some(1), Survivors::Some(2)] {
            cut(cut_at, survivors);
        }
    }
}

#[test]
fn writes_that_are_queued_at_the_same_time_share_one_sync() {
    let drive = drive_with_store(None);
    let store = open(&drive).unwrap();
    let syncs = || drive.platter().syncs;
    let before = syncs();
    put(&store, "a", "1").unwrap();
    assert_eq!(syncs() - before, 1);

    // The first job keeps the writer busy until all other jobs are queued.
    let (release, held) = mpsc::channel::<()>();
    let (replies, answers) = mpsc::channel();
    let before = syncs();
    submit(&store, "a", "2", replies.clone(), move || assert!(held.recv().is_err()));
    for round in 0..20 {
        submit(&store, &format!("b{round}"), "1", replies.clone(), || {});
    }
    drop((release, replies));
    assert_eq!(answers.iter().filter(Result::is_ok).count(), 21);
    assert!(syncs() - before <= 2, "{} syncs", syncs() - before);
}
