//! Sizes: how many characters, items or members there are at least and at most.

/// A range of sizes; the largest number stands for unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) min: u64,
    pub(super) max: u64,
}

impl Size {
    pub(super) const UNKNOWN: Size = Size {
        min: 0,
        max: u64::MAX,
    };

    pub(super) fn fixed(size: u64) -> Size {
        Size { min: size, max: size }
    }

    /// What a union begins with.
    pub(super) fn empty_union(is_all: bool) -> Size {
        Size {
            min: if is_all { 0 } else { u64::MAX },
            max: 0,
        }
    }

    pub(super) fn union(self, other: Size) -> Size {
        Size {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }

    pub(super) fn plus(self, other: Size) -> Size {
        Size {
            min: self.min.saturating_add(other.min),
            max: self.max.saturating_add(other.max),
        }
    }

    pub(super) fn times(self, other: Size) -> Size {
        Size {
            min: self.min.saturating_mul(other.min),
            max: self.max.saturating_mul(other.max),
        }
    }

    /// What looking at so much costs at most.
    pub(super) fn cost(self, factor: f64) -> u64 {
        scaled(self.max, factor)
    }
}

/// A number times a factor, rounded up.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "as the reference does it; bounded before"
)]
pub(super) fn scaled(n: u64, factor: f64) -> u64 {
    let product = (n as f64 * factor).ceil();
    if product >= u64::MAX as f64 {
        return u64::MAX;
    }
    product as u64
}

/// The sizes of what a list or map holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) is_list: bool,
    pub(super) key: Size,
    pub(super) value: Size,
}

impl Entry {
    pub(super) fn list(value: Size) -> Entry {
        Entry {
            is_list: true,
            key: Size::fixed(1),
            value,
        }
    }

    pub(super) fn map(key: Size, value: Size) -> Entry {
        Entry {
            is_list: false,
            key,
            value,
        }
    }

    pub(super) fn union(self, other: Entry) -> Entry {
        Entry {
            is_list: self.is_list,
            key: self.key.union(other.key),
            value: self.value.union(other.value),
        }
    }
}
