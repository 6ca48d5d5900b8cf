//! Storage on one node: desired, observed, plan, step, execute.
