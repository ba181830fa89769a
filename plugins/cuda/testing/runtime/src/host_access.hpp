// The host's accesses to memory that it may not touch.
#pragma once

namespace gx::cuda_testing {

/// From here on, a host that touches device memory, freed memory, or pinned memory that queued work
/// uses, writes one sentence to standard error before it ends with SIGSEGV.
void name_host_accesses();

}  // namespace gx::cuda_testing
