// DeviceContext, Queue: streams of one rank on one GPU, with events and copies.
#pragma once

#include <cstddef>     // byte
#include <cstdint>     // uint64_t
#include <functional>  // function
#include <optional>    // the present graph
#include <span>        // the host's memory
#include <utility>     // move
#include <vector>      // events

#include <cuda_runtime_api.h>  // cudaStream_t, cudaEvent_t

#include <gx/core/contract.hpp>       // GX_EXPECT
#include <gx/core/error.hpp>          // Delivery
#include <gx/core/label.hpp>          // Label
#include <gx/core/stream.hpp>         // Event, Operation
#include <gx/cuda/device_span.hpp>    // DeviceSpan
#include <gx/cuda/handles.hpp>        // StreamHandle
#include <gx/cuda/memory.hpp>         // GpuMemory, Resource
#include <gx/cuda/update_tables.hpp>  // UpdateTables

namespace gx::cuda {

class Queue;
class StepGraphs;

/// One GPU as one rank uses it: its memory, and its queues, whose events it knows.
/// Threads: one at a time. The constructor makes the GPU the current device of its thread; a thread
///          that uses the context later does so itself (use()).
/// Errors: gx::Error where there is no such GPU.
class DeviceContext {
public:
    explicit DeviceContext(int device);
    DeviceContext(const DeviceContext&) = delete;
    DeviceContext& operator=(const DeviceContext&) = delete;

    [[nodiscard]] int device() const { return device_; }
    [[nodiscard]] MemoryResource& memory() { return resource_; }
    /// Makes the GPU the current device of the calling thread.
    void use() const;
    /// Makes a GPU the current device of its thread while it lives, then the one before.
    class Current {
    public:
        explicit Current(int device);
        Current(const Current&) = delete;
        Current& operator=(const Current&) = delete;
        ~Current();

    private:
        int before_ = 0;
    };
    /// Called again and again while the host waits. It is for transports, whose streams never get
    /// on where a rank is missing. With an incomplete delivery `watch` has given up what hung: the
    /// host waits for what is left of the queue, since memory that it uses may end, and the wait is
    /// incomplete.
    void watch(std::function<Delivery()> watch) { watch_ = std::move(watch); }

private:
    friend Queue;
    int device_;
    std::vector<Queue*> queues_{};  ///< nullptr: ended
    std::function<Delivery()> watch_{};
    Resource resource_;
};

struct QueueOptions {
    int events = 512;  ///< events in the pool: records that have one of their own
    /// Pinned memory between the device and memory of the host that is not pinned. Copies larger
    /// than half of it go in parts. A step does not wait where it holds what two steps copy.
    std::size_t staging_bytes = std::size_t{1} << 20;
    std::size_t graph_bytes = 4096;  ///< pinned memory of copies out in graphs
};

/// A CUDA stream with a pool of events and pinned staging memory, made once; models DeviceQueue.
///
///     record(), wait_for(e), wait(e)    cudaEventRecord, cudaStreamWaitEvent, cudaEventSynchronize
///     copy_in(host, view, what)         through the staging memory, of what the host holds now
///     copy_out(view, host, what)        the same; the host gets the values in the wait() for an
///                                       event behind it. In a graph (StepGraphs) it is a node,
///                                       which copies to pinned memory kept for that `host`
///     launch(queue, kernel, ...)        the kernels of gx that gx/cuda/launch.hpp lists
///
/// An event is of the pool: after QueueOptions::events further records it means a later point.
/// Waits for it still hold, and take longer.
///
/// Errors: gx::Error, or DeviceLost, from any call, of earlier work too; a copy that was not waited
///         for is then dropped. wait() is incomplete where DeviceContext::watch() is.
///         An event that was never recorded breaks the contract, and so does host_reads() of the
///         target of a copy that was not waited for.
/// Threads: those of its context.
/// Cost:   a step allocates nothing; copy_in waits where the staging memory is full.
class Queue {
public:
    using Memory = GpuMemory;

    Queue(DeviceContext& context, const Label& name, const QueueOptions& options = {});
    Queue(const Queue&) = delete;
    Queue& operator=(const Queue&) = delete;
    /// Waits for its work.
    ~Queue();

    [[nodiscard]] cudaStream_t stream() const { return stream_.get(); }
    [[nodiscard]] DeviceContext& context() const { return *context_; }

    [[nodiscard]] Event record() { return record_on(stream()); }
    void wait_for(Event event);
    [[nodiscard]] Delivery wait(Event event);
    /// Whether the event is known to be reached, or is now; waits for nothing.
    [[nodiscard]] bool reached(Event event) const;
    /// After DeviceContext::watch() has given up what hung: waits for the rest, and watches no
    /// more. CUDA drops nothing: what was queued behind that has run on memory that holds anything.
    void abandon();
    static constexpr bool runs_abandoned_work = true;

    template <class T>
    void copy_in(std::span<const T> from, ViewIn<T, Memory> to, const Operation& what) {
        GX_EXPECT(from.size() == to.size(), "a copy fills as many elements as it reads");
        copy_in(std::as_bytes(from), Memory::open(to).data, what);
    }
    template <class T>
    void copy_out(ViewIn<const T, Memory> from, std::span<T> to, const Operation& what) {
        GX_EXPECT(from.size() == to.size(), "a copy fills as many elements as it reads");
        copy_out(Memory::open(from).data, std::as_writable_bytes(to), what);
    }
    template <class T>
    void host_reads(std::span<const T> memory, const Operation&) const {
        expect_copied(std::as_bytes(memory));
    }

    // ---- For launch() ----
    static constexpr std::int64_t scratch_words = 1024;
    /// Device memory of kernels, which each uses as it likes.
    [[nodiscard]] DeviceSpan<std::uint32_t> scratch() {
        return Memory::open(scratch_.view<Memory>());
    }
    [[nodiscard]] UpdateTables& update_tables() { return tables_; }

private:
    friend StepGraphs;
    /// A part of the staging memory, until the copy is known to be done.
    struct Staged {
        std::size_t begin = 0, bytes = 0;
        std::uint64_t sequence = 0;   ///< of the event behind the copy
        std::byte* target = nullptr;  ///< of a copy out
    };

    /// Pinned memory of copies in graphs to one target, behind the staging memory.
    struct Place {
        std::span<std::byte> target{};
        std::size_t begin = 0;
        std::uint64_t sequence = 0;  ///< of the event behind the copy; 0: none is under way
    };

    Event record_on(cudaStream_t where);
    void copy_in(std::span<const std::byte> from, void* to, const Operation& what);
    void copy_out(const void* from, std::span<std::byte> to, const Operation& what);
    void copy_out_in_graph(const void* from, std::span<std::byte> to);
    [[nodiscard]] Place& place_for(std::span<std::byte> target);
    [[nodiscard]] std::uint64_t oldest_copy_out() const;
    void expect_copied(std::span<const std::byte> memory) const;
    [[nodiscard]] std::size_t part_of(std::size_t bytes) const;
    [[nodiscard]] std::size_t place(std::size_t bytes) const;
    [[nodiscard]] std::size_t reserve(std::size_t bytes, const Operation& what);
    void stage(const Staged& part);
    void release_staged();
    void release_reached();
    [[nodiscard]] Delivery reach(std::uint64_t sequence);
    void drop_copies();
    void drop_copies_of_graph();
    [[nodiscard]] cudaEvent_t event(std::uint64_t sequence) const {
        return events_[stands_[sequence % events_.size()] % events_.size()].get();
    }
    /// The last event is the one of all behind `sequence`.
    void stand_for(std::uint64_t sequence);
    void expect_takes_part() const;
    [[nodiscard]] Staged& staged(std::size_t i) { return staged_[(oldest_ + i) % staged_.size()]; }
    [[nodiscard]] const Staged& staged(std::size_t i) const {
        return staged_[(oldest_ + i) % staged_.size()];
    }
    void expect_done(cudaError_t result, const char* call);

    DeviceContext* context_;
    Label name_;
    int id_;
    StreamHandle stream_;
    std::vector<EventHandle> events_;
    std::vector<std::uint64_t> stands_;          ///< for each event: which one is recorded for it
    std::uint64_t recorded_ = 0, reached_ = 0;   ///< events; reached: known to the host
    std::optional<std::uint64_t> pass_begin_{};  ///< last event before the present graph

    PinnedBytes staging_;
    std::size_t staging_bytes_, staging_end_ = 0;  ///< end: behind the newest part
    std::size_t pinned_bytes_;
    std::vector<Staged> staged_;  ///< a ring, oldest first
    std::size_t oldest_ = 0, staged_count_ = 0;
    std::vector<Place> places_{};
    std::size_t places_end_;

    Buffer<std::uint32_t> scratch_;
    UpdateTables tables_;
};

}  // namespace gx::cuda
