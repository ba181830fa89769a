// The host's accesses to memory that it may not touch.
#pragma once

namespace gx::cuda_testing {

/// Names accesses of hosts to memory of the double from here on. A host that touches device memory,
/// freed memory, or pinned memory that queued work uses, writes one sentence to standard error
/// before it ends with SIGSEGV. A handler that was there before gets this fault then, and all that
/// are not of the double's memory.
void name_host_accesses();

}  // namespace gx::cuda_testing
