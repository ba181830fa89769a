// The hooks of emulated kernels, faults and counters.
#include <string>       // names
#include <string_view>  // labels
#include <utility>      // move

#include "state.hpp"

namespace gx::cuda_testing {

namespace {

template <class F>
auto locked(F f) {
    const auto r = the_runtime();
    const std::lock_guard lock(r->mutex);
    return f(*r);
}

void host_uses(const void* begin, std::size_t bytes, bool writes, const std::string& what) {
    locked([&](Runtime& r) {
        if (r.stopped) return;
        const Use use{static_cast<const std::byte*>(begin), bytes, writes};
        for (const CUstream_st& s : r.streams)
            for (const Operation& op : s.queue)
                for (const Use& other : op.uses)
                    if ((writes || other.writes) && other.overlaps(use))
                        r.stop("'" + what + "' of the host uses memory while '" + op.name + "' (" +
                               s.name +
                               ") is queued on it. Wait for the stream or an event "
                               "behind it first.");
        r.note(r.host, use, what);
    });
}

}  // namespace

// ---- Kernels ---------------------------------------------------------------------------------

// Programming guide, "Stream and Event Behavior": a launch fails in a stream of another device than
// the current one. An injected failure is kept for cudaGetLastError, as with <<<>>>.
cudaError_t enqueue_kernel(cudaStream_t stream, const char* kernel, std::function<void()> run) {
    const std::string name = kernel;
    return call("a launch of '" + name + "'", {}, [&](Runtime& r) {
        CUstream_st& s = r.stream_of(stream, "a launch of '" + name + "'");
        const int device = host_thread(r).device;
        if (s.device != device)
            r.stop("'" + name + "' is launched in " + s.name + " while device " +
                   std::to_string(device) +
                   " is current: cudaErrorInvalidResourceHandle. Call "
                   "cudaSetDevice first.");
        if (r.next_launch.fires()) return r.next_launch.error;
        ++r.counts.kernels;
        r.push(s, {.name = name, .kind = Operation::Kind::kernel, .run = std::move(run)});
        return cudaSuccess;
    });
}

cudaError_t refuse_kernel(const char* kernel, cudaError_t error) {
    return call("a launch of '" + std::string(kernel) + "'", {}, [&](Runtime&) { return error; });
}

void report_access(const void* begin, std::size_t bytes, bool writes, const char* kernel) {
    if (bytes == 0) return;
    locked([&](Runtime& r) {
        const std::string name = kernel;
        if (r.running == nullptr || r.running->kind == Operation::Kind::host_function)
            r.stop("'" + name + "' reports an access, but no kernel runs.");
        const Use use{static_cast<const std::byte*>(begin), bytes, writes};
        r.expect_usable("'" + r.running->name + "' (" + r.running_on->name + ")", use,
                        r.running_on->device, Runtime::When::runs);
        r.note(r.running_on->actor, use, r.running->name);
        r.open(*r.memory.find(begin), use);
        if (r.watcher) r.watcher(r.running->name, begin, bytes, writes);
    });
}

void enqueue_when(cudaStream_t stream, const std::string& name, std::function<bool()> ready,
                  std::function<void()> run) {
    (void)call(name, {}, [&](Runtime& r) {
        CUstream_st& s = r.stream_of(stream, name);
        if (const cudaError_t error = r.device_error(s.device); error != cudaSuccess) return error;
        r.push(s, {.name = name,
                   .kind = Operation::Kind::kernel,
                   .run = std::move(run),
                   .ready = std::move(ready)});
        return cudaSuccess;
    });
}

// ---- What the double cannot see --------------------------------------------------------------

void host_reads(const void* begin, std::size_t bytes, const std::string& what) {
    host_uses(begin, bytes, false, what);
}
void host_writes(const void* begin, std::size_t bytes, const std::string& what) {
    host_uses(begin, bytes, true, what);
}
void name_memory(const void* begin, const std::string& name) {
    locked([&](Runtime& r) {
        Allocation* const a = r.memory.begins_at(begin);
        if (a == nullptr) r.stop("'" + name + "' names memory that no allocation begins at.");
        a->name = "'" + name + "', " + a->name;
        r.races.note(r.host, Access::begin, {a->begin, a->bytes},
                     {std::string_view(name).substr(0, 63)});
    });
}

// ---- Faults and counters ---------------------------------------------------------------------

void fail_allocation(int k, cudaError_t error) {
    locked([&](Runtime& r) { r.next_allocation = {k, error}; });
}
void fail_launch(int k, cudaError_t error) {
    locked([&](Runtime& r) { r.next_launch = {k, error}; });
}
void fail_operation(int k, cudaError_t error) {
    locked([&](Runtime& r) { r.next_operation = {k, error}; });
}
void lose_device(int device, cudaError_t error) {
    locked([&](Runtime& r) {
        Runtime::Device& d = r.devices.at(static_cast<std::size_t>(device));
        d.sticky = error;
        d.lost = true;
    });
}

void watch_accesses(AccessWatcher watcher) {
    locked([&](Runtime& r) { r.watcher = std::move(watcher); });
}

RuntimeCounters counters() {
    return locked([](Runtime& r) { return r.counts; });
}

RuntimeCounters operator-(RuntimeCounters a, const RuntimeCounters& b) {
    a.allocations -= b.allocations;
    a.frees -= b.frees;
    a.host_allocations -= b.host_allocations;
    a.host_synchronizations -= b.host_synchronizations;
    a.queries -= b.queries;
    a.copies -= b.copies;
    a.copied_bytes -= b.copied_bytes;
    a.sets -= b.sets;
    a.kernels -= b.kernels;
    a.host_functions -= b.host_functions;
    a.event_records -= b.event_records;
    a.event_waits -= b.event_waits;
    a.graph_launches -= b.graph_launches;
    a.operations -= b.operations;
    return a;
}

}  // namespace gx::cuda_testing
