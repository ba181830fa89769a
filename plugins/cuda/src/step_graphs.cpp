#include <gx/cuda/step_graphs.hpp>

#include <algorithm>  // count_if
#include <string>     // sentences
#include <utility>    // exchange

#include <gx/core/error.hpp>  // Error, NotRepeated

namespace gx::cuda {

// ---- Calls -------------------------------------------------------------------------------------

void GraphCalls::end() const {
    if (!captures_ && next_ < calls_.size())
        throw NotRepeated("call " + std::to_string(next_ + 1) + ", '" + calls_[next_].name +
                          "', was captured and is not made");
}

void expect_no_graph(const char* what) {
    if (current_graph != nullptr)
        throw NotRepeated(std::string(what) + " can't be a part of a graph");
}

// ---- Passes ------------------------------------------------------------------------------------

/// One capture or replay.
class StepGraphs::Pass {
public:
    Pass(StepGraphs& graphs, Graph& graph, Queue& queue, Queue& other)
        : graphs_(graphs), graph_(graph), queue_(queue), other_(other) {}
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;
    ~Pass() {
        queue_.drop_copies_of_graph();
        other_.drop_copies_of_graph();
        try {
            (void)end();
            reach_events();
        } catch (const Error&) {  // the one that unwinds is reported
        }
    }

    void begin() {
        if (captures_ || checks_) {
            queue_.expect_done(
                cudaStreamBeginCapture(queue_.stream(), cudaStreamCaptureModeThreadLocal),
                "cudaStreamBeginCapture");
            open_ = true;
            queue_.expect_done(order(queue_, graphs_.fork_, other_), "fork of a capture");
        }
        queue_.pass_begin_ = queue_.recorded_;
        other_.pass_begin_ = other_.recorded_;
        graph_.calls.begin(captures_);
        current_graph = &graph_.calls;
    }
    void launch() {
        const auto graph = end();
        graph_.calls.end();
        if (captures_) {
            cudaGraphExec_t executable{};
            queue_.expect_done(cudaGraphInstantiate(&executable, graph.get(), 0),
                               "cudaGraphInstantiate");
            graph_.executable.reset(executable);
        } else if (checks_) {
            expect_empty(graph.get());
            graph_.is_checked = true;
        }
        queue_.expect_done(cudaGraphLaunch(graph_.executable.get(), queue_.stream()),
                           "cudaGraphLaunch");
        reach_events();
    }

private:
    static cudaError_t order(const Queue& before, const EventHandle& event, const Queue& after) {
        const cudaError_t recorded = cudaEventRecord(event.get(), before.stream());
        return recorded != cudaSuccess ? recorded
                                       : cudaStreamWaitEvent(after.stream(), event.get(), 0);
    }
    /// A call that queues work beside queued_call() would run beside the graph that holds it.
    void expect_empty(cudaGraph_t graph) const {
        std::size_t nodes = 0;
        queue_.expect_done(cudaGraphGetNodes(graph, nullptr, &nodes), "cudaGraphGetNodes");
        if (nodes > 0)
            throw NotRepeated("beside the captured calls others queue work, " +
                              std::to_string(nodes) +
                              " a step: queue kernels by gx::cuda::launch(), and what else a "
                              "launch_on calls by gx::cuda::queued_call()");
    }
    [[nodiscard]] std::unique_ptr<CUgraph_st, DestroyGraph> end() {
        current_graph = nullptr;
        cudaGraph_t graph{};
        if (std::exchange(open_, false)) {
            const cudaError_t joined = order(other_, graphs_.join_, queue_),
                              ended = cudaStreamEndCapture(queue_.stream(), &graph);
            queue_.expect_done(joined != cudaSuccess ? joined : ended, "cudaStreamEndCapture");
        }
        return std::unique_ptr<CUgraph_st, DestroyGraph>(graph);
    }
    /// The events of the pass stand for its end: those of both queues are of one stream, so that
    /// a wait for one queue is also one for the copies of the other.
    void reach_events() {
        if (!queue_.pass_begin_) return;
        const std::uint64_t of_queue = *std::exchange(queue_.pass_begin_, std::nullopt),
                            of_other = *std::exchange(other_.pass_begin_, std::nullopt);
        other_.record_on(queue_.stream());
        other_.stand_for(of_other);
        other_.wait_for(queue_.record());
        queue_.stand_for(of_queue);
    }

    StepGraphs& graphs_;
    Graph& graph_;
    Queue &queue_, &other_;
    bool captures_ = graph_.executable == nullptr;
    bool checks_ = !captures_ && !graph_.is_checked;  ///< captures what a replay must not queue
    bool open_ = false;                               ///< the capture
};

// ---- Graphs ------------------------------------------------------------------------------------

StepGraphs::StepGraphs() : fork_(make_event()), join_(make_event()) {}

void StepGraphs::run(std::uint64_t key, Queue& queue, Queue& other, FunctionRef<bool()> f) {
    const std::shared_ptr<Graph> graph = graphs_[key];  // clear() may come from f
    queue.wait_for(other.record());
    if (!graph) {
        other.wait_for(queue.record());
        if (f()) graphs_[key] = std::make_shared<Graph>();
        return;
    }
    bool launched = false;
    try {
        Pass pass(*this, *graph, queue, other);
        pass.begin();
        if (f()) {
            pass.launch();
            launched = true;
        }
    } catch (...) {
        graphs_.erase(key);
        throw;
    }
    if (!launched) graphs_.erase(key);
}

std::size_t StepGraphs::count() const {
    return static_cast<std::size_t>(std::ranges::count_if(
        graphs_, [](const auto& g) { return g.second && g.second->executable != nullptr; }));
}

}  // namespace gx::cuda
