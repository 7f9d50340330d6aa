//! Features of the last few batches.

use crate::error::Result;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// How many batches are kept: a state, and what may follow it.
const KEPT: usize = 8;
/// Numbers of a batch at most, rows and features; larger ones are not worth the memory.
const MOST: usize = 1 << 17;

/// Rows and their features.
type Batch = (Vec<f32>, Arc<[f32]>);

/// The last batches, the very last first.
#[derive(Debug, Default)]
pub(super) struct Recent(Mutex<VecDeque<Batch>>);

impl Recent {
    /// The `size` features of rows `x`: those that are kept, or what `fill` writes. Where another thread looks at them, they are
    /// computed rather than waited for.
    pub(super) fn get(
        &self,
        x: &[f32],
        size: usize,
        fill: impl FnOnce(&mut [f32]) -> Result<()>,
    ) -> Result<Arc<[f32]>> {
        let mut kept = self.0.try_lock().ok().filter(|_| size + x.len() <= MOST);
        let known = kept.as_ref().and_then(|kept| kept.iter().find(|(rows, _)| rows == x));
        if let Some((_, features)) = known {
            return Ok(features.clone());
        }
        let mut features: Arc<[f32]> = std::iter::repeat_n(0.0, size).collect();
        // Nobody else has it yet.
        fill(Arc::get_mut(&mut features).unwrap_or_default())?;
        if let Some(kept) = &mut kept {
            kept.truncate(KEPT - 1);
            kept.push_front((x.to_vec(), features.clone()));
        }
        Ok(features)
    }
}
