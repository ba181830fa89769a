// Runtime: the state of the double, its queues and the calls' common part.
#pragma once

#include <condition_variable>  // waiting hosts
#include <cstdint>             // uint64_t
#include <deque>               // handles that stay where they are
#include <memory>              // shared_ptr
#include <mutex>               // one call at a time
#include <string>              // sentences
#include <set>                 // peers
#include <thread>              // who stopped it
#include <unordered_set>       // handles
#include <vector>              // devices

#include <gx/core/function_ref.hpp>      // FunctionRef
#include <gx/core/rng.hpp>               // Rng
#include <gx/cuda_testing/runtime.hpp>   // RuntimeOptions, RuntimeCounters, Misuse
#include <gx/testing/race_detector.hpp>  // RaceDetector

#include "memory.hpp"
#include "operations.hpp"

namespace gx::cuda_testing {

/// Of streams: the greatest is the least number, as on an H100.
inline constexpr int least_priority = 0, greatest_priority = -5;

/// What a call is, for the rules of captures and of errors.
struct CallRules {
    /// "A potentially unsafe API call" of cudaThreadExchangeStreamCaptureMode: refused in captures.
    bool unsafe_in_capture = false;
    /// Does its work, and then returns an earlier error of the device. Succeeds after a misuse, and
    /// while an exception unwinds.
    bool frees = false;
    bool fails_with_device = true;  ///< returns an earlier error of the current device
};

/// The double of a library that queues work on streams, such as NCCL. It lives as long as the
/// Runtime, whose lock is held in its calls.
class Extension {
public:
    Extension() = default;
    Extension(const Extension&) = delete;
    Extension& operator=(const Extension&) = delete;
    virtual ~Extension() = default;
    /// The device's queued work will not run.
    virtual void work_dropped(int device) = 0;
    /// Takes what other processes have sent. Whether anything may come from them.
    virtual bool take_messages() = 0;
    /// A sentence about what was not released; "" if there is nothing.
    [[nodiscard]] virtual std::string leaks() = 0;
};

/// The double's state. One call of the host runs at a time, under `mutex`; all host threads are one
/// actor of the race detector.
class Runtime {
public:
    struct Device {
        cudaError_t sticky = cudaSuccess;
        bool lost = false;
        CUstream_st* default_stream = nullptr;
        std::set<int> peers{};  ///< whose memory it may access
        Point serial{};         ///< the last cudaMemcpyPeer of the device, which later work awaits
    };
    struct Fault {
        int left = 0;  ///< 0: none
        cudaError_t error = cudaSuccess;
        /// Counts one; whether it is this one.
        bool fires() { return left > 0 && --left == 0; }
    };

    explicit Runtime(const RuntimeOptions& o);

    RuntimeOptions options;
    std::uint64_t generation;  ///< what threads remember is of this one, or void
    testing::RaceDetector races{1};
    int host;
    Memory memory{};
    std::vector<Device> devices{};
    std::deque<CUstream_st> streams{};
    std::deque<CUevent_st> events{};
    std::deque<CUgraph_st> graphs{};
    std::deque<CUgraphExec_st> executables{};
    std::unordered_set<const void*> handles{};         ///< that were given out; the ended ones too
    std::vector<std::shared_ptr<Capture>> captures{};  ///< open
    RuntimeCounters counts{};
    Fault next_allocation{}, next_launch{}, next_operation{};
    AccessWatcher watcher{};
    std::string misuse{};  ///< the first one
    /// Behind a misuse, until the thread that got it goes on: other threads get cudaErrorUnknown.
    bool stopped = false;
    std::thread::id stopped_by{};
    const Operation* running = nullptr;
    CUstream_st* running_on = nullptr;
    double now_ms = 0;  ///< virtual: a microsecond an operation

    // ---- Handles: each ends in a misuse where the handle is of nothing, or ended ----
    CUstream_st& stream_of(cudaStream_t handle, const std::string& call);
    CUevent_st& event_of(cudaEvent_t handle, const std::string& call);
    CUstream_st& make_stream(int device, bool blocking, const std::string& name, bool is_branch);

    // ---- Queues (scheduler.cpp) ----
    /// Queues the operation, or adds it to the stream's capture.
    void push(CUstream_st& to, Operation op);
    /// The same, past captures: for branches of graphs.
    Point enqueue(CUstream_st& to, Operation op);
    [[nodiscard]] static bool reached(const Point& p) { return p.stream->done >= p.sequence; }
    /// The host waits. cudaErrorUnknown where the double was stopped meanwhile.
    cudaError_t wait(const std::vector<Point>& points, const std::string& call);
    /// The host learned that the point is reached.
    void host_saw(const Point& p) { races.waited(p.stream->actor, p.sequence, host); }
    /// The host sleeps until another call; a misuse where no call can come.
    void sleep(const std::string& call, FunctionRef<bool()> can_go_on);
    /// A call or an operation has changed something that hosts may wait for.
    void wake();
    /// Runs one operation that the points need; false where none can run.
    bool advance(const std::vector<Point>& points);
    /// Whether all work of the stream is done and the host has waited for it.
    [[nodiscard]] bool host_knows(CUstream_st& s);
    void drop_work(int device);
    [[nodiscard]] static Point end_of(CUstream_st& s) { return {&s, s.queued}; }

    // ---- Memory ----
    /// A misuse unless the range lies in one live allocation, device memory of `device` or pinned.
    /// `when`: whether a cudaMallocAsync that has not run may still come before the use.
    enum class When : unsigned char { queued, runs };
    void expect_usable(const std::string& what, const Use& use, int device, When when);
    [[nodiscard]] bool may_access(int device, const Allocation& a) const;
    /// A device to the memory of another, or to its own.
    [[nodiscard]] bool may_access(int device, int of) const;
    void note(int actor, const Use& use, const std::string& what);
    /// Before memory is freed or unregistered: nothing queued uses it, and all was waited for.
    void expect_unused(const Allocation& a, const std::string& call);
    /// Pinned pages that work uses are closed to the host from here on. They are readable where all
    /// work only reads them.
    void close_pinned(const Use& use);
    /// Opens those whose work the host has waited for.
    void open_pinned();
    /// All work is dropped.
    void forget_pinned() { in_flight_.clear(); }
    /// Opens memory to the running operation, until close_memory(): device memory as a whole.
    void open(Allocation& a, const Use& use);
    /// Before the host goes on. A misuse where the system refuses, as open().
    void close_memory();
    /// Pinned pages; a misuse where the system refuses.
    void set_pages(Allocation& a, const Use& pages, Allocation::Page access);
    /// A sentence on the system's refusal.
    [[nodiscard]] static std::string refused_access(const Allocation& a);
    /// The host touched a closed page. "": it may, and the page is open now.
    [[nodiscard]] std::string host_touches(const void* address);

    // ---- Calls ----
    [[nodiscard]] bool is_device(int device) const {
        return device >= 0 && device < static_cast<int>(devices.size());
    }
    [[nodiscard]] cudaError_t device_error(int device) const;
    /// Of the driver or of all devices: what every call returns. cudaSuccess: nothing.
    [[nodiscard]] cudaError_t lacking() const;
    [[noreturn]] void stop(const std::string& sentence);
    /// Behind a misuse: drops all work and open captures; what exists stays, as if just made.
    void go_on();
    void refuse_unsafe_in_capture(const std::string& call);
    [[nodiscard]] std::string leaks();
    void expect_clean();

    std::recursive_mutex mutex{};
    int waiting = 0;  ///< hosts that sleep
    std::unique_ptr<Extension> extension{};

private:
    void run_head(CUstream_st& s);
    void execute(CUstream_st& s, Operation& op);
    [[nodiscard]] bool can_run(CUstream_st& s);
    void add_needed(const Point& p, std::vector<CUstream_st*>& seen,
                    std::vector<CUstream_st*>& able);
    [[nodiscard]] CUstream_st* choose(const std::vector<Point>& points);
    void make_progress();
    [[nodiscard]] std::string stuck();
    std::uint64_t draw(std::uint64_t n) { return rng_.below(draws_++, n); }

    void open_memory(const CUstream_st& s, const Operation& op);

    std::condition_variable_any changed_{};
    std::uint64_t wakes_ = 0;
    std::vector<Allocation*> opened_{};
    std::set<int> opened_devices_{};  ///< that these are of
    std::vector<Use> opened_pinned_{};
    std::vector<Use> in_flight_{};  ///< pinned pages, whole
    Rng rng_;
    std::uint64_t draws_ = 0;
};

/// The RaceDetector's sentence without the rank, of which the double has one.
[[nodiscard]] std::string race_text(const std::string& sentence);

/// The state, made by the first call.
[[nodiscard]] std::shared_ptr<Runtime> the_runtime();
void replace_runtime(std::shared_ptr<Runtime> next);

/// What a host thread remembers.
struct HostThread {
    std::uint64_t generation = 0;
    int device = 0;
    cudaError_t last_error = cudaSuccess;
    cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
};
/// Of the calling thread, for this runtime.
[[nodiscard]] HostThread& host_thread(const Runtime& r);

/// Who runs a call's body: checks what all calls have in common, keeps the last error.
template <class F>
cudaError_t call(const std::string& name, CallRules rules, F body);

class ClosesMemory {
public:
    explicit ClosesMemory(Runtime& r) : r_(r) {}
    ClosesMemory(const ClosesMemory&) = delete;
    ClosesMemory& operator=(const ClosesMemory&) = delete;
    ~ClosesMemory() {
        try {
            r_.close_memory();
        } catch (const Misuse&) {  // behind another one, which passes: call() closes it else
        }
    }

private:
    Runtime& r_;
};

/// Ends a body whose rules were checked: remembers the error for cudaGetLastError, except for not
/// ready, as CUDA 13.0 does.
cudaError_t finish_call(Runtime& r, cudaError_t error);
/// What stops the call before its body; cudaSuccess: nothing.
cudaError_t before_call(Runtime& r, const std::string& name, CallRules rules);

template <class F>
cudaError_t call(const std::string& name, CallRules rules, F body) {
    const std::shared_ptr<Runtime> r = the_runtime();
    const std::lock_guard lock(r->mutex);
    const ClosesMemory closes(*r);
    const bool quiet = std::uncaught_exceptions() > 0 || (rules.frees && r->stopped);
    try {
        if (const cudaError_t error = before_call(*r, name, rules); error != cudaSuccess)
            return finish_call(*r, error);
        const cudaError_t error = body(*r);
        r->close_memory();
        const bool may_fail = rules.frees && error == cudaSuccess && !r->devices.empty();
        return finish_call(*r, may_fail ? r->device_error(host_thread(*r).device) : error);
    } catch (const Misuse&) {
        if (!quiet) throw;  // a destructor must not throw while another exception passes
        return rules.frees ? cudaSuccess : cudaErrorUnknown;
    }
}

}  // namespace gx::cuda_testing
