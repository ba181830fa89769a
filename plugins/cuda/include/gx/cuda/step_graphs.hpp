// StepGraphs: work that is queued again and again, captured as CUDA graphs and replayed.
#pragma once

#include <cstddef>  // size_t
#include <cstdint>  // uint64_t
#include <map>      // graphs by key
#include <memory>   // shared_ptr

#include <cuda_runtime_api.h>  // cudaGraphExec_t

#include <gx/core/function_ref.hpp>  // FunctionRef
#include <gx/cuda/handles.hpp>       // EventHandle
#include <gx/cuda/queue.hpp>         // Queue
#include <gx/cuda/queued_call.hpp>   // GraphCalls

namespace gx::cuda {

/// Executable graphs of one rank, by key. What f queues is run
///
///     the 1st time   as ever; so communicators connect, and tables are made
///     the 2nd time   captured (cudaStreamCaptureModeThreadLocal), instantiated and launched
///     later          by one cudaGraphLaunch. f is called all the same: it keeps its books, and
///                    each queued_call() is compared with the captured one instead of being made
///     the 3rd time   also captured, to find calls that are made beside queued_call()
///
/// Events that f records are reached when the graph is. What the queues held before comes before
/// it, and what they are given later behind it.
///
/// Errors: NotRepeated where f makes another call than was captured, or one on the two queues that
///         is no queued_call(), copies from the host, or waits; gx::Error, or DeviceLost, as of
///         Queue.
/// Threads: those of the queues' context.
/// Cost:   a replay makes, beside the launch, 3 records of events and 2 waits of queues.
class StepGraphs {
public:
    /// On the current GPU.
    StepGraphs();
    StepGraphs(const StepGraphs&) = delete;
    StepGraphs& operator=(const StepGraphs&) = delete;

    /// Calls f, which queues the same work on `queue` and `other` for equal keys. Only values in
    /// the memory of the device differ. f returns whether it is to run: else nothing of it does,
    /// and the graph is dropped.
    void run(std::uint64_t key, Queue& queue, Queue& other, FunctionRef<bool()> f);
    /// Drops all graphs: before what they use ends, or is another.
    void clear() { graphs_.clear(); }
    /// Executable graphs.
    [[nodiscard]] std::size_t count() const;

private:
    struct DestroyGraph {
        void operator()(cudaGraph_t g) const { (void)cudaGraphDestroy(g); }
        void operator()(cudaGraphExec_t g) const { (void)cudaGraphExecDestroy(g); }
    };
    struct Graph {
        GraphCalls calls{};
        std::unique_ptr<CUgraphExec_st, DestroyGraph> executable{};
        bool is_checked = false;  ///< a replay has queued nothing
    };
    class Pass;

    std::map<std::uint64_t, std::shared_ptr<Graph>> graphs_{};
    EventHandle fork_, join_;
};

}  // namespace gx::cuda
