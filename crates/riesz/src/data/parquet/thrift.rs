//! Thrift's compact protocol, as far as it takes to see that sizes are backed by bytes.
//!
//! The parquet crate makes room for as many elements of a list, and bytes of a page, as a file says there are. So what it is
//! given to read is looked through before.

/// Deepest nesting that is followed.
const DEPTH: usize = 32;

/// A structure that ends too early or is none.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Broken;

/// Bytes that hold structures.
pub(super) struct Walk<'a> {
    bytes: &'a [u8],
    place: usize,
}

impl<'a> Walk<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, place: 0 }
    }

    /// Bytes passed over.
    pub(super) fn place(&self) -> usize {
        self.place
    }

    fn byte(&mut self) -> Result<u8, Broken> {
        let byte = *self.bytes.get(self.place).ok_or(Broken)?;
        self.place += 1;
        Ok(byte)
    }

    fn advance(&mut self, count: u64) -> Result<(), Broken> {
        let left = (self.bytes.len() - self.place) as u64;
        if count > left {
            return Err(Broken);
        }
        self.place += count as usize;
        Ok(())
    }

    fn number(&mut self) -> Result<u64, Broken> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Broken)
    }

    /// A whole number with its sign.
    fn signed(&mut self) -> Result<i64, Broken> {
        let value = self.number()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Passes over a structure; `told` hears its whole numbers and those of structures right inside: the field of the outer one
    /// (0 for its own), the field and the number.
    pub(super) fn structure(&mut self, told: &mut dyn FnMut(i64, i64, i64)) -> Result<(), Broken> {
        self.fields(0, 0, told)
    }

    fn fields(
        &mut self,
        depth: usize,
        outer: i64,
        told: &mut dyn FnMut(i64, i64, i64),
    ) -> Result<(), Broken> {
        if depth > DEPTH {
            return Err(Broken);
        }
        let mut field = 0;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Ok(());
            }
            field = match head >> 4 {
                0 => self.signed()?,
                step => field + i64::from(step),
            };
            match head & 0x0F {
                4..=6 => {
                    let number = self.signed()?;
                    if depth <= 1 {
                        told(outer, field, number);
                    }
                }
                12 => self.fields(depth + 1, if depth == 0 { field } else { -1 }, told)?,
                // Truth values of fields are in their type.
                1 | 2 => {}
                kind => self.value(kind, depth + 1)?,
            }
        }
    }

    /// Passes over a value.
    fn value(&mut self, kind: u8, depth: usize) -> Result<(), Broken> {
        if depth > DEPTH {
            return Err(Broken);
        }
        match kind {
            1..=3 => self.advance(1),
            4..=6 => self.number().map(drop),
            7 => self.advance(8),
            8 => {
                let length = self.number()?;
                self.advance(length)
            }
            9 | 10 => {
                let head = self.byte()?;
                let count = if head >> 4 == 15 { self.number()? } else { u64::from(head >> 4) };
                self.values(count, &[head & 0x0F], depth)
            }
            11 => match self.number()? {
                0 => Ok(()),
                count => {
                    let kinds = self.byte()?;
                    self.values(count, &[kinds >> 4, kinds & 0x0F], depth)
                }
            },
            12 => self.fields(depth + 1, -1, &mut |_, _, _| {}),
            13 => self.advance(16),
            _ => Err(Broken),
        }
    }

    /// Passes over `count` groups of values, each of at least a byte.
    fn values(&mut self, count: u64, kinds: &[u8], depth: usize) -> Result<(), Broken> {
        if count > (self.bytes.len() - self.place) as u64 {
            return Err(Broken);
        }
        (0..count).try_for_each(|_| kinds.iter().try_for_each(|&kind| self.value(kind, depth + 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_told_by_their_fields() {
        // 2: i32 = 300, 5: { 1: i32 = -1 }, 6: list of two i32, 7: binary "ab", end.
        let bytes =
            [0x25, 0xD8, 0x04, 0x3C, 0x15, 0x01, 0x00, 0x19, 0x25, 0x02, 0x04, 0x18, 0x02, b'a', b'b', 0x00];
        let mut found = Vec::new();
        let mut walk = Walk::new(&bytes);
        walk.structure(&mut |outer, field, number| found.push((outer, field, number))).unwrap();
        assert_eq!(found, [(0, 2, 300), (5, 1, -1)]);
        assert_eq!(walk.place(), bytes.len());
        for end in 0..bytes.len() {
            assert_eq!(Walk::new(&bytes[..end]).structure(&mut |_, _, _| {}), Err(Broken), "{end}");
        }
        // A list of 2³¹ elements that are not there.
        let list = [0x19, 0xF5, 0x80, 0x80, 0x80, 0x80, 0x08, 0x00];
        assert_eq!(Walk::new(&list).structure(&mut |_, _, _| {}), Err(Broken));
    }

    proptest! {
        #[test]
        fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Walk::new(&bytes).structure(&mut |_, _, _| {});
        }
    }
}
