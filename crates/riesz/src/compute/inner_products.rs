//! Products ⟨x, a⟩ of rows and points whose numbers are bfloat16, on AMX tiles.
//!
//! Such numbers have products that single precision holds, and their sums are in single precision: only the order of summation differs from that of
//! the vector paths. A tile of sums is sixteen points by sixteen rows, so that it lies in memory as lanes want it.

use super::amx::tiles;
use super::buffer::Buffer;
use super::lanes::LANES;
use super::{Device, Path};

/// Columns of one tile of points.
const COLUMNS: usize = 32;
/// Numbers of one tile.
const TILE: usize = LANES * COLUMNS;
/// Tiles of points that meet one tile of rows together.
const TOGETHER: usize = 4;
/// Points of these.
const STRIP: usize = TOGETHER * LANES;

/// out_pi = ⟨x_i, a_p⟩ of sixteen rows i and packed points p, a strip of 64 points after the other, of which `out` has room for all.
///
/// # Safety
/// The machine has the instructions, and the slices are as [`OnTiles`] packs them.
pub(super) type Product = unsafe fn(points: &[u16], rows: &[u16], out: &mut [[f32; LANES]]);

/// How `device` multiplies tiles, where it can.
pub(super) fn product_on(device: Device) -> Option<Product> {
    match device.path() {
        Path::Amx => tiles::PRODUCT,
        _ => None,
    }
}

/// Rows that stay and points that come, as tiles of bfloat16.
///
/// Of each 32 columns, a tile of points has sixteen of them, row-major; a tile of rows has sixteen pairs of columns, each for sixteen rows. What is beyond the last
/// column, row or point is zero.
pub(super) struct OnTiles {
    product: Product,
    columns: usize,
    /// For each sixteen rows a tile for each 32 columns.
    rows: Buffer<u16>,
    /// For each 64 points four tiles for each 32 columns.
    points: Buffer<u16>,
}

impl OnTiles {
    /// Packs rows that lie in `lanes`, columns of sixteen rows after each other.
    #[inline(always)]
    pub(super) fn new(product: Product, columns: usize, lanes: &[f32]) -> Self {
        let mut all = Self { product, columns, rows: Buffer::default(), points: Buffer::default() };
        let size = all.tiles_of_rows();
        all.rows.resize(lanes.len() / (LANES * columns) * size);
        let groups = lanes.chunks_exact(LANES * columns).zip(all.rows.chunks_exact_mut(size));
        for (lanes, rows) in groups {
            for (columns, pairs) in lanes.chunks(2 * LANES).zip(rows.chunks_exact_mut(2 * LANES)) {
                let (even, odd) = columns.split_at(LANES);
                pairs.iter_mut().step_by(2).zip(even).for_each(|(to, x)| *to = high(*x));
                pairs.iter_mut().skip(1).step_by(2).zip(odd).for_each(|(to, x)| *to = high(*x));
            }
        }
        all
    }

    /// Packs points in place of those before.
    #[inline(always)]
    pub(super) fn take(&mut self, points: &[f32]) {
        let (d, size) = (self.columns, self.tiles_of_points());
        self.points.resize((points.len() / d).div_ceil(STRIP) * size);
        self.points.fill(0);
        for (i, point) in points.chunks_exact(d).enumerate() {
            let first = i / STRIP * size + i % STRIP / LANES * TILE + i % LANES * COLUMNS;
            for (step, numbers) in point.chunks(COLUMNS).enumerate() {
                let to = &mut self.points[first + step * TOGETHER * TILE..][..numbers.len()];
                to.iter_mut().zip(numbers).for_each(|(to, x)| *to = high(*x));
            }
        }
    }

    /// ⟨x, a⟩ of the sixteen rows of a group and the points.
    ///
    /// # Safety
    /// The machine has the instructions of the product.
    #[inline(always)]
    pub(super) unsafe fn multiply(&self, group: usize, out: &mut [[f32; LANES]]) {
        debug_assert!(out.len() * self.tiles_of_points() >= self.points.len() * STRIP);
        let size = self.tiles_of_rows();
        // SAFETY: both are packed as the product wants them; the machine is as the caller says.
        unsafe { (self.product)(&self.points, &self.rows[group * size..][..size], out) }
    }

    fn tiles_of_rows(&self) -> usize {
        self.columns.div_ceil(COLUMNS) * TILE
    }

    fn tiles_of_points(&self) -> usize {
        TOGETHER * self.tiles_of_rows()
    }
}

/// The bits of a bfloat16.
#[inline(always)]
fn high(x: f32) -> u16 {
    debug_assert!(x.to_bits() & 0xffff == 0, "{x} is no bfloat16");
    (x.to_bits() >> 16) as u16
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(super) unsafe fn multiply(points: &[u16], rows: &[u16], out: &mut [[f32; LANES]]) {
    let steps = rows.len() / TILE;
    // SAFETY: a strip has four tiles of points for each of the `steps` ≥ 1 tiles of rows, and 64 runs of sums; between
    // configuration and release this thread runs nothing else.
    unsafe {
        tiles::configure();
        for (points, out) in points.chunks_exact(steps * TOGETHER * TILE).zip(out.chunks_exact_mut(STRIP)) {
            tiles::multiply_strip(points.as_ptr(), rows.as_ptr(), out.as_mut_ptr().cast(), steps);
        }
        tiles::release();
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// What tiles do, number by number.
    pub(in crate::compute) unsafe fn emulated(points: &[u16], rows: &[u16], out: &mut [[f32; LANES]]) {
        let value = |bits: u16| f32::from_bits(u32::from(bits) << 16);
        let steps = rows.len() / TILE;
        let strips = points.chunks_exact(steps * TOGETHER * TILE);
        assert!(strips.remainder().is_empty() && strips.len() * STRIP <= out.len());
        for (strip, points) in strips.enumerate() {
            for t in 0..TOGETHER {
                let out = &mut out[strip * STRIP + t * LANES..][..LANES];
                out.iter_mut().for_each(|out| out.fill(0.0));
                for step in 0..steps {
                    let a = &points[(step * TOGETHER + t) * TILE..][..TILE];
                    let b = &rows[step * TILE..][..TILE];
                    for (m, out) in out.iter_mut().enumerate() {
                        for (n, out) in out.iter_mut().enumerate() {
                            let (mut even, mut odd) = (0.0, 0.0);
                            for k in 0..COLUMNS / 2 {
                                let (a, b) = (&a[m * COLUMNS + 2 * k..], &b[k * 2 * LANES + 2 * n..]);
                                even += value(a[0]) * value(b[0]);
                                odd += value(a[1]) * value(b[1]);
                            }
                            *out += even + odd;
                        }
                    }
                }
            }
        }
    }

    /// Whole numbers, whose sums are exact: every number is where tiles look for it, by emulation and on tiles where there are any.
    #[test]
    fn products_are_those_of_the_numbers() {
        let products = Device::available().into_iter().filter_map(product_on).chain([emulated as Product]);
        for product in products {
            for (n, m, d) in
                [(1, 1, 1), (15, 5, 32), (16, 64, 33), (33, 65, 88), (17, 256, 100), (3, 255, 64)]
            {
                let number = |i: usize| (i * 37 % 101) as f32 - 50.0;
                let x: Vec<f32> = (0..n * d).map(number).collect();
                let a: Vec<f32> = (0..m * d).map(|i| number(i + 7)).collect();
                let groups = n.div_ceil(LANES);
                let mut lanes = vec![0.0; groups * LANES * d];
                for (k, x) in x.iter().enumerate() {
                    let (i, j) = (k / d, k % d);
                    lanes[i / LANES * LANES * d + j * LANES + i % LANES] = *x;
                }
                let mut tiles = OnTiles::new(product, d, &lanes);
                // What other points have left does not matter.
                for points in [&vec![1.0; 256 * d], &a] {
                    tiles.take(points);
                }
                for group in 0..groups {
                    let mut out = vec![[f32::NAN; LANES]; m.next_multiple_of(STRIP)];
                    unsafe { tiles.multiply(group, &mut out) };
                    for (j, a) in a.chunks_exact(d).enumerate() {
                        let rows = x.chunks_exact(d).skip(group * LANES).take(LANES);
                        for (i, x) in rows.enumerate() {
                            let exact: f32 = x.iter().zip(a).map(|(x, a)| x * a).sum();
                            assert_eq!(out[j][i], exact, "{n}, {m}, {d}: {i}, {j}");
                        }
                    }
                }
            }
        }
    }
}
