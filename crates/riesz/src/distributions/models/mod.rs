//! Models whose posteriors are learnt: what is observed, given the parameters.

pub mod sparse_gp;
