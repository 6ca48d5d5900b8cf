//! Data movement (`copy_in`, `copy_out`): the decisions, without any I/O.
//!
//! * [`layout`]: which directory a copy fills, and under which name, from what lies at its source and destination.
//! * [`order`]: what an agent tells `datamover` on its standard input.
//! * [`report`]: what `datamover` tells on its standard output.

pub mod layout;
pub mod order;
pub mod report;
