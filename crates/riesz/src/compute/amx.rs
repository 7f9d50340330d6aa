//! Gram matrices on AMX tiles: bfloat16 products, single-precision sums.
//!
//! A tile product multiplies 16×32 by 32×16 numbers in sixteen cycles, an order of magnitude above the vector
//! units. Features are bounded by √2, so rounding them to bfloat16 perturbs each product by at most 2⁻⁷ and
//! the mean of thousands of them far less; H is a preconditioner, the gradient stays in single precision.

use super::buffer::Buffer;
use super::lanes::{load_all, Lanes, LANES};
use super::products::{Group, Selection, Sink};

/// Rows consumed by one tile product.
const TILE_ROWS: usize = 32;
/// Numbers of one tile.
const TILE_SIZE: usize = 16 * TILE_ROWS;
/// Tile products summed in registers before an output block is written back: 1,024 rows.
const STEPS: usize = 32;
/// Side of an output block: 2×2 tiles.
pub(crate) const BLOCK: usize = 2 * LANES;
/// Output blocks (of 32 features) whose left factors stay in second-level cache while the right ones stream by.
pub(crate) const GROUP: usize = 8;

/// Whether this processor has AMX with bfloat16 and the operating system grants its use.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(crate) fn available() -> bool {
    use std::arch::x86_64::{__cpuid_count, _xgetbv};
    const TILE_STATE: u64 = 0b11 << 17;
    #[target_feature(enable = "xsave")]
    unsafe fn enabled_state() -> u64 {
        // SAFETY: compiled with XSAVE, checked by the caller.
        unsafe { _xgetbv(0) }
    }
    let leaf = __cpuid_count(7, 0);
    let (bf16, tile) = (leaf.edx >> 22 & 1, leaf.edx >> 24 & 1);
    if bf16 & tile == 0 || !is_x86_feature_detected!("xsave") {
        return false;
    }
    // SAFETY: XSAVE was detected above.
    if unsafe { enabled_state() } & TILE_STATE != TILE_STATE {
        return false;
    }
    request_permission()
}

/// Without an operating system interface we know, AMX stays off.
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
pub(crate) fn available() -> bool {
    false
}

/// Asks Linux for the tile registers: `arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)`.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn request_permission() -> bool {
    const ARCH_PRCTL: i64 = 158;
    const ARCH_REQ_XCOMP_PERM: i64 = 0x1023;
    const XFEATURE_XTILEDATA: i64 = 18;
    let status: i64;
    // SAFETY: a system call with two integers; it reads and writes no memory of ours.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => status,
            in("rdi") ARCH_REQ_XCOMP_PERM,
            in("rsi") XFEATURE_XTILEDATA,
            out("rcx") _,
            out("r11") _,
            options(nostack),
        );
    }
    status == 0
}

/// Packed features: for every 32 rows one tile per sixteen features, one after the other.
#[derive(Default)]
pub(crate) struct Packed {
    features: usize,
    /// Tiles of 16 features × 32 rows.
    left: Buffer<u16>,
    /// The same tiles as the right factor wants them: pairs of rows × 16 features.
    right: Buffer<u16>,
}

/// Numbers between the tiles of one 32-row step and the next: one spare tile, so that equal features of different
/// steps do not compete for the same cache sets.
const fn step_size(features: usize) -> usize {
    (features / LANES + 1) * TILE_SIZE
}

impl Packed {
    /// Makes room for `rows` rows, a multiple of 32.
    pub(crate) fn reset(&mut self, rows: usize, features: usize) {
        self.features = features;
        let size = rows / TILE_ROWS * step_size(features);
        self.left.resize(size);
        self.right.resize(size);
    }

    /// Parts of `rows` rows each, for parallel packing.
    pub(crate) fn parts(&mut self, rows: usize) -> Vec<(&mut [u16], &mut [u16])> {
        let size = rows / TILE_ROWS * step_size(self.features);
        self.left.chunks_mut(size).zip(self.right.chunks_mut(size)).collect()
    }
}

/// Writes diag(√w) Φ of the selected rows of one logical tile.
pub(crate) struct Pack<'a> {
    pub features: usize,
    pub roots: &'a [f32],
    pub selection: Selection,
    pub left: &'a mut [u16],
    pub right: &'a mut [u16],
}

impl Pack<'_> {
    /// The tiles of the 32 rows that the packed row `row` is one of.
    fn step(&self, row: usize) -> std::ops::Range<usize> {
        let size = step_size(self.features);
        row / TILE_ROWS * size..(row / TILE_ROWS + 1) * size
    }

    /// Zeroes the part, for a tile with fewer rows than it could have.
    pub(crate) fn clear(&mut self) {
        self.left.fill(0);
        self.right.fill(0);
    }
}

impl Sink for Pack<'_> {
    #[inline(always)]
    unsafe fn take<L: Lanes>(&mut self, row: usize, group: Group) {
        let Some(packed) = self.selection.packed_row(row) else { return };
        let mut roots = [0.0; LANES];
        let valid = (self.roots.len() - row).min(LANES);
        roots[..valid].copy_from_slice(&self.roots[row..row + valid]);
        let start = self.step(packed).start + packed % TILE_ROWS;
        // SAFETY: the part holds tiles for all its rows and features; row k of a step is number k of a feature.
        unsafe {
            let roots = L::load(roots.as_ptr());
            let mut to = self.left.as_mut_ptr().add(start + group.offset * TILE_ROWS);
            let mut phi = group.phi;
            for _ in 0..group.count {
                L::load(phi).mul(roots).store_bf16(to);
                to = to.add(TILE_ROWS);
                phi = phi.add(group.stride);
            }
        }
    }

    /// Makes the right tiles from the left ones once a step is complete: a transposition of pairs.
    #[inline(always)]
    unsafe fn finish<L: Lanes>(&mut self, row: usize, _: usize) {
        let Some(packed) = self.selection.packed_row(row) else { return };
        let last = self.selection.0 >> (row / LANES) == 1 || row + LANES >= self.roots.len();
        if packed % TILE_ROWS == 0 && !last {
            return;
        }
        let step = self.step(packed);
        let tiles =
            self.left[step.clone()].chunks_exact(TILE_SIZE).zip(self.right[step].chunks_exact_mut(TILE_SIZE));
        for (left, right) in tiles {
            // SAFETY: a tile is sixteen vectors; loads, shuffles and stores keep every bit.
            unsafe {
                let (from, to) = (left.as_ptr().cast::<f32>(), right.as_mut_ptr().cast::<f32>());
                let mut tile = load_all::<L, LANES>(from, LANES);
                L::transpose(&mut tile);
                for (i, row) in tile.iter().enumerate() {
                    row.store(to.add(i * LANES));
                }
            }
        }
    }
}

/// Adds the products of the first `rows` packed rows to the block rows i, i + 1, … of the Gram matrix: block row k
/// holds the 32×32 blocks (k, 0), …, (k, k), one after the other, each row-major.
pub(crate) fn add_products(packed: &Packed, rows: usize, i: usize, blocks: &mut [&mut [f32]]) {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    // SAFETY: reached only on a `Device` of `Path::Amx`, that is after `available()`; the block rows hold what they should.
    unsafe {
        tiles::add_products(packed, rows, i, blocks);
    }
    #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
    let _ = (packed, rows, i, blocks);
}

/// Without an operating system interface we know, there are no tiles.
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
pub(super) mod tiles {
    pub(in crate::compute) const PRODUCT: Option<super::super::inner_products::Product> = None;
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(super) mod tiles {
    use super::super::inner_products::{multiply, Product};
    use super::{step_size, Packed, BLOCK, LANES, STEPS, TILE_ROWS, TILE_SIZE};
    use std::arch::asm;

    /// Products of rows and points.
    pub(in crate::compute) const PRODUCT: Option<Product> = Some(multiply);

    #[repr(C, align(64))]
    struct Configuration([u8; 64]);

    /// Eight tiles of 16 rows × 64 bytes.
    const fn configuration() -> Configuration {
        let mut bytes = [0; 64];
        bytes[0] = 1;
        let mut tile = 0;
        while tile < 8 {
            bytes[16 + 2 * tile] = 64;
            bytes[48 + tile] = 16;
            tile += 1;
        }
        Configuration(bytes)
    }

    static CONFIGURATION: Configuration = configuration();

    /// Takes the tile registers of this thread. Until [`release`] it runs no other code that uses them.
    #[inline(always)]
    pub(in crate::compute) unsafe fn configure() {
        // SAFETY: AMX is available (the caller's promise); the configuration is 64 valid bytes.
        unsafe {
            asm!("ldtilecfg [{}]", in(reg) CONFIGURATION.0.as_ptr(), options(nostack, readonly));
        }
    }

    /// Gives the tile registers back.
    #[inline(always)]
    pub(in crate::compute) unsafe fn release() {
        // SAFETY: as for `configure`.
        unsafe {
            asm!("tilerelease", options(nostack, nomem));
        }
    }

    pub(super) unsafe fn add_products(packed: &Packed, rows: usize, i: usize, blocks: &mut [&mut [f32]]) {
        let step = step_size(packed.features);
        // SAFETY: AMX is available (the caller's promise). Between configuration and release no other code of this thread
        // uses tile registers.
        unsafe {
            configure();
            for first in (0..rows.div_ceil(TILE_ROWS)).step_by(STEPS) {
                let steps = (rows.div_ceil(TILE_ROWS) - first).min(STEPS);
                let at = |base: &[u16], j: usize| base.as_ptr().add(first * step + 2 * j * TILE_SIZE);
                for j in 0..i + blocks.len() {
                    for (k, row) in blocks.iter_mut().enumerate().skip(j.saturating_sub(i)) {
                        let out = row.as_mut_ptr().add(j * BLOCK * BLOCK);
                        block(at(&packed.left, i + k), at(&packed.right, j), out, steps, 2 * step);
                    }
                }
            }
            release();
        }
    }

    /// A 32×32 block of C += A B over `steps` steps, `bytes` apart; both factors are pairs of adjacent tiles.
    #[inline(always)]
    unsafe fn block(left: *const u16, right: *const u16, c: *mut f32, steps: usize, bytes: usize) {
        // SAFETY: the factors hold two tiles for each of `steps` ≥ 1 steps; c holds 32×32 numbers.
        unsafe {
            asm!(
                "tileloadd tmm0, [{c0} + {stride}*1]",
                "tileloadd tmm1, [{c0} + {stride}*1 + 64]",
                "tileloadd tmm2, [{c1} + {stride}*1]",
                "tileloadd tmm3, [{c1} + {stride}*1 + 64]",
                "2:",
                "tileloadd tmm4, [{a} + {row}*1]",
                "tileloadd tmm6, [{b} + {row}*1]",
                "tileloadd tmm7, [{b} + {row}*1 + 1024]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm5, [{a} + {row}*1 + 1024]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "add {a}, {bytes}",
                "add {b}, {bytes}",
                "dec {steps}",
                "jnz 2b",
                "tilestored [{c0} + {stride}*1], tmm0",
                "tilestored [{c0} + {stride}*1 + 64], tmm1",
                "tilestored [{c1} + {stride}*1], tmm2",
                "tilestored [{c1} + {stride}*1 + 64], tmm3",
                a = inout(reg) left => _,
                b = inout(reg) right => _,
                bytes = in(reg) bytes,
                c0 = in(reg) c,
                c1 = in(reg) c.add(LANES * BLOCK),
                stride = in(reg) 4 * BLOCK,
                row = in(reg) 64_usize,
                steps = inout(reg) steps => _,
                options(nostack),
            );
        }
    }

    /// 64 points by sixteen rows of C = A B over `steps` steps of 32 columns: four tiles of A, which follow each other, meet one of B in
    /// every step, and the four tiles of C are 64 runs of sixteen numbers.
    #[inline(always)]
    pub(in crate::compute) unsafe fn multiply_strip(a: *const u16, b: *const u16, c: *mut f32, steps: usize) {
        // SAFETY: a holds four tiles for each of `steps` ≥ 1 steps, b one; c holds 64×16 numbers.
        unsafe {
            asm!(
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                "2:",
                "tileloadd tmm4, [{b} + {row}*1]",
                "tileloadd tmm5, [{a} + {row}*1]",
                "tdpbf16ps tmm0, tmm5, tmm4",
                "tileloadd tmm6, [{a} + {row}*1 + 1024]",
                "tdpbf16ps tmm1, tmm6, tmm4",
                "tileloadd tmm7, [{a} + {row}*1 + 2048]",
                "tdpbf16ps tmm2, tmm7, tmm4",
                "tileloadd tmm5, [{a} + {row}*1 + 3072]",
                "tdpbf16ps tmm3, tmm5, tmm4",
                "add {a}, 4096",
                "add {b}, 1024",
                "dec {steps}",
                "jnz 2b",
                "tilestored [{c} + {row}*1], tmm0",
                "tilestored [{c} + {row}*1 + 1024], tmm1",
                "tilestored [{c} + {row}*1 + 2048], tmm2",
                "tilestored [{c} + {row}*1 + 3072], tmm3",
                a = inout(reg) a => _,
                b = inout(reg) b => _,
                c = in(reg) c,
                row = in(reg) 64_usize,
                steps = inout(reg) steps => _,
                options(nostack),
            );
        }
    }
}
