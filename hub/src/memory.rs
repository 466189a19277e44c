//! Freed memory goes back to the system while nothing happens.
//!
//! The allocator gives back what was freed some time ago when something else is freed. A hub that comes to rest after a
//! large change frees nothing more, and would keep it.

/// Large enough to be kept in a piece of its own, so that freeing it looks at what is due.
const PIECE_BYTES: usize = 4 << 20;

/// Lets the allocator look at what it can give back. Costs some microseconds; the piece is never touched.
pub fn give_back() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(PIECE_BYTES)));
}
