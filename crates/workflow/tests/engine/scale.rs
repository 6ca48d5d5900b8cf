//! What a state costs grows as the job does: counted, not timed.

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

/// Counts what a thread allocates: whoever copies a name or keeps an object does, so that it counts what a plan does.
struct Counting;

#[expect(
    unsafe_code,
    reason = "the trait of allocators is unsafe; all is handed on to the system's"
)]
// SAFETY: every call is handed on as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is the same.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// What one state takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Cost {
    /// Times that the workflow was planned until nothing was left to do.
    plans: usize,
    /// Changes of objects.
    writes: usize,
    /// Allocations of all plans.
    work: usize,
}

/// A life with so many computes, by state.
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
            site.ask("w", state);
        }
        costs.insert(state, settled(&mut site));
        assert!(site.is_ready("w", state), "{:?}", site.told("w"));
        if state == "Proposal" {
            let computes: Vec<&str> = names.iter().map(String::as_str).collect();
            site.fill_computes("w", &computes);
        }
    }
    costs
}

fn settled(site: &mut Site) -> Cost {
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

/// From n to 2n computes as much comes to it as from 2n to 3n. Not so Lustre: its profile says how many targets there are.
#[test]
fn a_state_costs_in_proportion_to_the_computes() {
    for kind in ["xfs", "raw", "gfs2"] {
        let [once, twice, thrice] = [2, 4, 6].map(|rabbits| life(kind, rabbits * CHASSIS));
        for state in STATES {
            let (one, two, three) = (once[state], twice[state], thrice[state]);
            assert_eq!((one.plans, two.plans), (two.plans, three.plans), "{kind}, {state}: plans");
            let (writes, work) = (two.writes - one.writes, two.work - one.work);
            assert_eq!(three.writes - two.writes, writes, "{kind}, {state}: writes");
            let more = three.work - two.work;
            // A tree of names grows by leaves of several.
            assert!(more <= work + work / 10, "{kind}, {state}: {one:?}, {two:?}, {three:?}");
        }
    }
}
