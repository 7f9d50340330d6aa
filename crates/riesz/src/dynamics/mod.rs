//! Learning over dynamics: conditional expectations, of which a sample has one outcome alone (thesis chapter 5).

pub mod policy_evaluation;
