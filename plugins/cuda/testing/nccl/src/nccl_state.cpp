// Options, counters and faults; "User Buffer Registration Functions"; what is left at the end.
#include "nccl_state.hpp"

namespace gx::nccl_testing {

Nccl& nccl_of(Runtime& r) {
    if (!r.extension) r.extension = std::make_unique<Nccl>(r);
    return static_cast<Nccl&>(*r.extension);
}

namespace {

template <class F>
auto locked(F f) {
    const auto r = cuda_testing::the_runtime();
    const std::lock_guard lock(r->mutex);
    return f(nccl_of(*r));
}

}  // namespace

std::string Nccl::leaks() {
    if (!open_groups.empty()) return "a group was not ended. Call ncclGroupEnd, also on errors.";
    std::string names;
    for (const ncclComm& c : comms)
        if (c.ended_by.empty() && !c.is_remote) names += (names.empty() ? "" : ", ") + c.name;
    return names.empty() ? "" : "not released: " + names + ". Destroy or abort communicators.";
}

// ---- The tests' side -------------------------------------------------------------------------

void set_options(const NcclOptions& options) {
    locked([&](Nccl& n) { n.options = options; });
}
NcclCounters counters() {
    return locked([](Nccl& n) { return n.counts; });
}
NcclCounters operator-(NcclCounters a, const NcclCounters& b) {
    a.kernels -= b.kernels;
    a.sends -= b.sends;
    a.sent_bytes -= b.sent_bytes;
    a.collectives -= b.collectives;
    a.polls -= b.polls;
    return a;
}
void lose_rank(ncclComm_t comm, int k, PeersSee peers) {
    locked([&](Nccl& n) {
        ncclComm& c = n.comm_of(comm, "lose_rank");
        c.peers_see = peers;
        c.dies_in = k;
        c.dead = k == 0;
    });
}
void kill_process(int k) {
    locked([&](Nccl& n) { n.killing_kernel = {k, cudaSuccess}; });
}
void fail_communicator(ncclComm_t comm, ncclResult_t error) {
    locked([&](Nccl& n) {
        ncclComm& c = n.comm_of(comm, "fail_communicator");
        n.fail(c, error, ncclGetErrorString(error));
    });
}
void fail_init(int k, ncclResult_t error) {
    locked([&](Nccl& n) {
        n.failing_init = {k, cudaSuccess};
        n.init_error = error;
    });
}
void hang_init(int k) {
    locked([&](Nccl& n) { n.hanging_init = {k, cudaSuccess}; });
}
void refuse_init(int k, ncclResult_t error) {
    locked([&](Nccl& n) {
        n.refusing_init = {k, cudaSuccess};
        n.refused_with = error;
    });
}
void refuse_work(ncclComm_t comm, ncclResult_t error) {
    locked([&](Nccl& n) {
        ncclComm& c = n.comm_of(comm, "refuse_work");
        c.refuses = error;
    });
}
void hang_part(int device) {
    locked([&](Nccl& n) { n.hanging_parts.insert(device); });
}
void set_unreachable(int device, int other) {
    locked([&](Nccl& n) { n.unreachable.insert(std::minmax(device, other)); });
}

}  // namespace gx::nccl_testing

using namespace gx::nccl_testing;

// ---- Memory ----------------------------------------------------------------------------------

// "ncclMemAlloc": of the current device; given back by ncclMemFree.
ncclResult_t ncclMemAlloc(void** pointer, size_t bytes) {
    return nccl_call("ncclMemAlloc", {.unsafe_in_capture = true}, [&](Nccl& n) {
        if (pointer == nullptr || bytes == 0) return ncclInvalidArgument;
        if (cudaMalloc(pointer, bytes) != cudaSuccess) return ncclUnhandledCudaError;
        n.memory.insert(*pointer);
        return ncclSuccess;
    });
}
ncclResult_t ncclMemFree(void* pointer) {
    return nccl_call("ncclMemFree", {.unsafe_in_capture = true, .frees = true}, [&](Nccl& n) {
        if (pointer == nullptr) return ncclSuccess;
        if (n.memory.erase(pointer) == 0)
            n.r.stop(
                "ncclMemFree of memory that ncclMemAlloc did not return, or that was freed. "
                "Release memory with the partner of its allocation.");
        return cudaFree(pointer) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
    });
}

// "ncclCommRegister": memory of the communicator's device, which stays until it is deregistered.
ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buffer, size_t bytes, void** handle) {
    return nccl_call("ncclCommRegister", {}, [&](Nccl& n) {
        if (handle == nullptr) return ncclInvalidArgument;
        ncclComm& c = n.ready_comm(comm, "ncclCommRegister");
        n.r.expect_usable("ncclCommRegister by " + c.name,
                          {static_cast<const std::byte*>(buffer), bytes, false}, c.device,
                          Runtime::When::queued);
        *handle = reinterpret_cast<void*>(static_cast<std::uintptr_t>(++n.registrations));
        c.registered[*handle] = buffer;
        return ncclSuccess;
    });
}
ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle) {
    return nccl_call("ncclCommDeregister", {.frees = true}, [&](Nccl& n) {
        ncclComm& c = n.comm_of(comm, "ncclCommDeregister");
        const auto found = c.registered.find(handle);
        if (found == c.registered.end())
            n.r.stop("ncclCommDeregister by " + c.name + " of a handle that is not registered.");
        if (!n.r.memory.flaw(found->second, 1).empty())
            n.r.stop("ncclCommDeregister by " + c.name + " of " +
                     n.r.memory.flaw(found->second, 1) +
                     ". Deregister before the memory is freed.");
        c.registered.erase(found);
        return ncclSuccess;
    });
}
