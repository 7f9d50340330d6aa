//! Which instructions the hot kernels use.

use serde::{Deserialize, Serialize};
use std::sync::OnceLock;

/// An instruction path. One seed gives the same bits on one path for any thread count; across paths
/// results agree to rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Path {
    /// Plain Rust, any processor.
    Portable,
    /// AVX2 with fused multiply-add.
    Avx2,
    /// AVX-512 (F, BW, DQ, VL).
    Avx512,
    /// AVX-512 with AMX tiles: Gram matrices in bfloat16 with single-precision accumulation.
    Amx,
}

impl Path {
    /// The best path this machine has, or the one named by the environment variable `RIESZ_SIMD`
    /// (`portable`, `avx2`, `avx512`, `amx`) where the machine has that too. Read once per process.
    pub fn detect() -> Self {
        static PATH: OnceLock<Path> = OnceLock::new();
        *PATH.get_or_init(|| {
            let best = Self::best();
            match std::env::var("RIESZ_SIMD").as_deref() {
                Ok("portable") => Self::Portable,
                Ok("avx2") => best.min(Self::Avx2),
                Ok("avx512") => best.min(Self::Avx512),
                _ => best,
            }
        })
    }

    /// The paths this machine can run, worst first.
    pub fn available() -> Vec<Self> {
        let all = [Self::Portable, Self::Avx2, Self::Avx512, Self::Amx];
        all.into_iter().filter(|&path| path <= Self::best()).collect()
    }

    #[cfg(target_arch = "x86_64")]
    fn best() -> Self {
        let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        let avx512 = avx2
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        match (avx512, avx2) {
            (true, _) if super::amx::available() => Self::Amx,
            (true, _) => Self::Avx512,
            (false, true) => Self::Avx2,
            (false, false) => Self::Portable,
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn best() -> Self {
        Self::Portable
    }
}

impl std::fmt::Display for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Amx => "amx",
        })
    }
}
