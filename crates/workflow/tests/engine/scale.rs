//! Counts the cost of each state of a workflow, which must grow in proportion to the number of computes.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    collections::BTreeMap,
};

use k8s_openapi::jiff::Timestamp;
use workflow::plan::plan_key;

use crate::{
    job::{GIB, STATES, directive},
    site::Site,
};

/// Computes of one rabbit.
const CHASSIS: usize = 16;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

/// Counts the memory allocations of a thread, as a measure of a plan's work: copying a name or
/// keeping an object allocates.
struct Counting;

#[expect(
    unsafe_code,
    reason = "GlobalAlloc is an unsafe trait; every call goes to the system's allocator"
)]
// SAFETY: every call is passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's guarantees are the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's guarantees are the same.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Cost of one state.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Cost {
    /// Number of plans of the workflow until nothing was left to do.
    plans: usize,
    writes: usize,
    /// Memory allocations during all plans.
    work: usize,
}

/// Returns the cost of each state of a workflow with this number of computes.
fn life(kind: &str, computes: usize) -> BTreeMap<&'static str, Cost> {
    let names: Vec<String> = (0..computes).map(|number| format!("n{number:04}")).collect();
    let mut site = Site::new(1, GIB);
    for (rabbit, served) in names.chunks(CHASSIS).enumerate() {
        site.add_rabbit(&format!("r{rabbit:03}"), served, 100 * GIB);
    }
    site.settle();
    site.create("w", &[directive(kind, "scratch")]);
    let mut costs = BTreeMap::new();
    for state in STATES {
        if state != "Proposal" {
            site.request_state("w", state);
        }
        costs.insert(state, settle_and_count(&mut site));
        assert!(site.is_ready("w", state), "{:?}", site.status_of("w"));
        if state == "Proposal" {
            let computes: Vec<&str> = names.iter().map(String::as_str).collect();
            site.fill_computes("w", &computes);
        }
    }
    costs
}

fn settle_and_count(site: &mut Site) -> Cost {
    let (mut cost, before) = (Cost::default(), site.writes);
    loop {
        let world = site.world();
        let key = world.keys().into_iter().find(|key| key.to_string().starts_with("Workflow"));
        ALLOCATIONS.with(|count| count.set(0));
        drop(plan_key(&world, &key.unwrap(), Timestamp::UNIX_EPOCH));
        cost.work += ALLOCATIONS.with(Cell::get);
        cost.plans += 1;
        if !site.step(|length| (0..length).collect()) {
            cost.writes = site.writes - before;
            return cost;
        }
    }
}

/// From n to 2n computes the cost grows as much as from 2n to 3n. Lustre is not tested: its profile sets
/// the number of targets.
#[test]
fn the_cost_of_a_state_is_proportional_to_the_number_of_computes() {
    for kind in ["xfs", "raw", "gfs2"] {
        let [once, twice, thrice] = [2, 4, 6].map(|rabbits| life(kind, rabbits * CHASSIS));
        for state in STATES {
            let (once, twice, thrice) = (once[state], twice[state], thrice[state]);
            assert_eq!((once.plans, twice.plans), (twice.plans, thrice.plans), "{kind}, {state}");
            let (writes, work) = (twice.writes - once.writes, twice.work - once.work);
            assert_eq!(thrice.writes - twice.writes, writes, "{kind}, {state}: writes");
            let more = thrice.work - twice.work;
            // The work may differ a little: a B-tree allocates one leaf for several entries.
            assert!(more <= work + work / 10, "{kind}, {state}: {once:?}, {twice:?}, {thrice:?}");
        }
    }
}
