//! The process's allocator. jemalloc returns freed pages within a second, from a thread of its own,
//! so that memory falls again after a backlog has been drained.

#[cfg(feature = "jemalloc")]
#[global_allocator]
static GLOBAL: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Read by jemalloc before `main`: a C string under this name.
#[cfg(feature = "jemalloc")]
#[expect(unsafe_code, reason = "the name is jemalloc's interface, and no other symbol has it")]
#[unsafe(export_name = "_rjem_malloc_conf")]
pub(crate) static MALLOC_CONF: &[u8; 63] =
    b"background_thread:true,dirty_decay_ms:1000,muzzy_decay_ms:1000\0";
