// CUDA Runtime API, "Graph Management": instances of captured graphs, and their launches.
#include <set>      // dependencies
#include <utility>  // pair

#include "state.hpp"

using namespace gx::cuda_testing;

namespace {

template <class Graph>
Graph& graph_of(Runtime& r, Graph* handle, const std::string& name) {
    if (!r.handles.contains(handle))
        r.stop(name + ": a graph that was never made, or before the last reset.");
    if (!handle->ended_by.empty())
        r.stop(name + ": " + handle->name + " was destroyed by " + handle->ended_by + ".");
    return *handle;
}

/// From the launch on the event means this operation.
void record(Runtime& r, Operation& op, const Point& point) {
    const auto recorded = std::make_shared<Recorded>(point);
    op.records->last = recorded;
    op.records->capture.reset();
    op.run = [recorded, &r] { recorded->time_ms = r.now_ms; };
}

/// The nodes of `graph`. Lanes stay, with the work of the last launch, where their devices do.
void take_nodes(CUgraphExec_st& g, const CUgraph_st& graph) {
    g.nodes = graph.nodes;
    g.branch_devices = graph.branch_devices;
    g.lanes.resize(g.branch_devices.size());
    for (std::size_t b = 0; b < g.lanes.size(); ++b)
        if (g.lanes[b] != nullptr && g.lanes[b]->device != g.branch_devices[b])
            g.lanes[b] = nullptr;
}

/// Where a branch runs: branch 0 in the stream of the launch, if that is of its device, each other
/// one in a lane of its own.
CUstream_st& lane_of(Runtime& r, CUgraphExec_st& g, std::size_t branch, CUstream_st& s) {
    const int device = g.branch_devices[branch];
    if (branch == 0 && s.device == device) return s;
    if (g.lanes[branch] == nullptr)
        g.lanes[branch] = &r.make_stream(
            device, false, "branch " + std::to_string(branch) + " of " + g.name, true);
    return *g.lanes[branch];
}

/// Queues the nodes between a begin and an end in the stream of the launch.
void launch(Runtime& r, CUgraphExec_st& g, CUstream_st& s) {
    Operation begin{.name = "begin of " + g.name};
    if (g.last.stream != nullptr && g.last.stream != &s) begin.waits = {g.last};
    r.push(s, std::move(begin));
    const Point start = Runtime::end_of(s);
    std::vector<Point> points, ends(g.lanes.size());
    for (const Node& node : *g.nodes) {
        const auto branch = static_cast<std::size_t>(node.branch);
        CUstream_st& to = lane_of(r, g, branch, s);
        Operation op = node.operation;
        op.name += " of " + g.name;
        if (&to != &s) op.waits.push_back(start);
        for (const int n : node.after) {
            const Point& p = points[static_cast<std::size_t>(n)];
            if (p.stream != &to) op.waits.push_back(p);
        }
        if (op.records != nullptr) record(r, op, {&to, to.queued + 1});
        points.push_back(r.enqueue(to, std::move(op)));
        ends[branch] = points.back();
    }
    Operation end{.name = "end of " + g.name};
    for (const Point& p : ends)
        if (p.stream != nullptr && p.stream != &s) end.waits.push_back(p);
    g.last = r.enqueue(s, std::move(end));
}

cudaError_t instantiate(Runtime& r, cudaGraphExec_t* executable, cudaGraph_t graph,
                        unsigned long long flags, const std::string& name) {
    if (executable == nullptr) return cudaErrorInvalidValue;
    const CUgraph_st& g = graph_of(r, graph, name);
    // Without allocations in graphs, and with priorities as hints, these two change nothing.
    constexpr unsigned long long known =
        cudaGraphInstantiateFlagAutoFreeOnLaunch | cudaGraphInstantiateFlagUseNodePriority;
    if ((flags & ~known) != 0)
        r.stop(name + " of " + g.name + " with flags " + std::to_string(flags) +
               ", which the double does not have.");
    CUgraphExec_st& x = r.executables.emplace_back();
    x.name = "instance " + std::to_string(r.executables.size()) + " of " + g.name;
    x.device = g.device;
    take_nodes(x, g);
    r.handles.insert(&x);
    *executable = &x;
    return cudaSuccess;
}

/// The allocation's kind and device, for each memory that the node uses.
std::vector<std::pair<Allocation::Kind, int>> memory_of(Runtime& r, const Node& n) {
    std::vector<std::pair<Allocation::Kind, int>> of;
    for (const Use& use : n.operation.uses)
        if (const Allocation* const a = r.memory.find(use.begin))
            of.emplace_back(a->kind, a->device);
    return of;
}

/// Why an instance of `now` cannot be updated with `next`.
cudaGraphExecUpdateResult difference(Runtime& r, const std::vector<Node>& now,
                                     const std::vector<Node>& next) {
    if (now.size() != next.size()) return cudaGraphExecUpdateErrorTopologyChanged;
    for (std::size_t i = 0; i < now.size(); ++i) {
        if (std::set(now[i].after.begin(), now[i].after.end()) !=
            std::set(next[i].after.begin(), next[i].after.end()))
            return cudaGraphExecUpdateErrorTopologyChanged;
        if (now[i].operation.kind != next[i].operation.kind ||
            now[i].operation.uses.size() != next[i].operation.uses.size())  // a set or a copy
            return cudaGraphExecUpdateErrorNodeTypeChanged;
        if (memory_of(r, now[i]) != memory_of(r, next[i]))
            return cudaGraphExecUpdateErrorParametersChanged;
    }
    return cudaGraphExecUpdateSuccess;
}

}  // namespace

// "Graph Management": an instance of the graph as it is now; both are destroyed by themselves.
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long flags) {
    return call("cudaGraphInstantiate", {}, [&](Runtime& r) {
        return instantiate(r, executable, graph, flags, "cudaGraphInstantiate");
    });
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph,
                                          unsigned long long flags) {
    return call("cudaGraphInstantiateWithFlags", {}, [&](Runtime& r) {
        return instantiate(r, executable, graph, flags, "cudaGraphInstantiateWithFlags");
    });
}

// "Graph Management": how many nodes it has; they have no handles here.
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
    return call("cudaGraphGetNodes", {}, [&](Runtime& r) {
        if (count == nullptr) return cudaErrorInvalidValue;
        if (nodes != nullptr)
            r.stop("cudaGraphGetNodes asks for nodes, and this double gives their number alone.");
        *count = graph_of(r, graph, "cudaGraphGetNodes").nodes->size();
        return cudaSuccess;
    });
}

// "Graph Management": launches from here on take the parameters of `graph`, which must have the
// same nodes with the same dependencies, on the same devices. Nodes are paired in the order of
// their captures. The node in question is not given.
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t executable, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo* result) {
    return call("cudaGraphExecUpdate", {}, [&](Runtime& r) {
        if (result == nullptr) return cudaErrorInvalidValue;
        CUgraphExec_st& x = graph_of(r, executable, "cudaGraphExecUpdate");
        const CUgraph_st& g = graph_of(r, graph, "cudaGraphExecUpdate");
        *result = {};
        result->result = x.device == g.device ? difference(r, *x.nodes, *g.nodes)
                                              : cudaGraphExecUpdateErrorParametersChanged;
        if (result->result != cudaGraphExecUpdateSuccess) return cudaErrorGraphExecUpdateFailure;
        take_nodes(x, g);
        return cudaSuccess;
    });
}

// "Graph Management": ordered behind the stream's work and behind earlier launches of the instance.
// The stream may be of another device: nodes run where they were captured ("Programming Guide",
// graph execution: the stream is for ordering only). Memory that copies and sets use must be there
// still; that of kernels is checked as they run.
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
    return call("cudaGraphLaunch", {}, [&](Runtime& r) {
        CUgraphExec_st& g = graph_of(r, executable, "cudaGraphLaunch");
        CUstream_st& s = r.stream_of(stream, "cudaGraphLaunch");
        for (const int device : {s.device, g.device})
            if (const cudaError_t error = r.device_error(device); error != cudaSuccess)
                return error;
        if (s.capture)
            r.stop("cudaGraphLaunch in " + s.name +
                   " while it is captured: this double has no graphs in graphs.");
        if (r.next_launch.fires()) return r.next_launch.error;
        for (const Node& node : *g.nodes)
            if (const CUevent_st* const e = node.operation.records;
                e != nullptr && !e->ended_by.empty())
                r.stop("cudaGraphLaunch of " + g.name + ", which records " + e->name +
                       ", destroyed by " + e->ended_by + ".");
        for (const Node& node : *g.nodes)
            for (const Use& use : node.operation.uses)
                r.expect_usable("cudaGraphLaunch of " + g.name + ": '" + node.operation.name + "'",
                                use, -1, Runtime::When::queued);
        ++r.counts.graph_launches;
        launch(r, g, s);
        return cudaSuccess;
    });
}

// "Graph Management": launches that are queued still run.
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
    return call("cudaGraphExecDestroy", {.frees = true}, [&](Runtime& r) {
        graph_of(r, executable, "cudaGraphExecDestroy").ended_by = "cudaGraphExecDestroy";
        return cudaSuccess;
    });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    return call("cudaGraphDestroy", {.frees = true}, [&](Runtime& r) {
        graph_of(r, graph, "cudaGraphDestroy").ended_by = "cudaGraphDestroy";
        return cudaSuccess;
    });
}
