//! Where the hot kernels run.

use super::Path;
use crate::error::{Error, Result};
use std::sync::OnceLock;

/// What computes. One can only be had for instructions that the machine was asked for, so that no kernel meets a
/// processor without them. An accelerator would be one more arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Device {
    /// The processor.
    Cpu(Processor),
}

/// A processor that has the instructions of a [`Path`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processor(Path);

impl Device {
    /// The processor with the instructions of `path`, where this machine has them.
    pub fn with_path(path: Path) -> Result<Self> {
        let best = Path::best();
        if path > best {
            return Err(Error::Instructions { wanted: path.to_string(), best: best.to_string() });
        }
        Ok(Self::Cpu(Processor(path)))
    }

    /// The devices of this machine, worst first.
    pub fn available() -> Vec<Self> {
        let all = [Path::Portable, Path::Avx2, Path::Avx512, Path::Amx];
        all.into_iter().filter_map(|path| Self::with_path(path).ok()).collect()
    }

    /// The name under which model files record it.
    pub fn path(self) -> Path {
        let Self::Cpu(Processor(path)) = self;
        path
    }
}

impl Default for Device {
    /// The best path this machine has, or the one named by the environment variable `RIESZ_SIMD`
    /// (`portable`, `avx2`, `avx512`, `amx`) where the machine has that too. Read once per process.
    fn default() -> Self {
        static PATH: OnceLock<Path> = OnceLock::new();
        Self::Cpu(Processor(*PATH.get_or_init(|| {
            let best = Path::best();
            match std::env::var("RIESZ_SIMD").as_deref() {
                Ok("portable") => Path::Portable,
                Ok("avx2") => best.min(Path::Avx2),
                Ok("avx512") => best.min(Path::Avx512),
                _ => best,
            }
        })))
    }
}

impl std::fmt::Display for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.path().fmt(f)
    }
}
