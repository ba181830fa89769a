// CUDA Runtime API, "Stream Management": captures.
#include <algorithm>  // find
#include <utility>    // exchange

#include "state.hpp"

namespace gx::cuda_testing {

// "Stream Management", cudaThreadExchangeStreamCaptureMode: which captures forbid an unsafe call.
void Runtime::refuse_unsafe_in_capture(const std::string& name) {
    const cudaStreamCaptureMode mode = host_thread(*this).mode;
    if (mode == cudaStreamCaptureModeRelaxed) return;
    for (const auto& c : captures) {
        const bool own = c->thread == std::this_thread::get_id();
        const bool forbids =
            own ? c->mode != cudaStreamCaptureModeRelaxed
                : c->mode == cudaStreamCaptureModeGlobal && mode == cudaStreamCaptureModeGlobal;
        if (forbids)
            stop(name + " while " + c->branches[0].stream->name +
                 " is captured: cudaErrorStreamCaptureUnsupported. Call it before or behind the "
                 "capture.");
    }
}

}  // namespace gx::cuda_testing

using namespace gx::cuda_testing;

namespace {

bool is_mode(cudaStreamCaptureMode mode) {
    return mode == cudaStreamCaptureModeGlobal || mode == cudaStreamCaptureModeThreadLocal ||
           mode == cudaStreamCaptureModeRelaxed;
}

/// Whether each node comes before the end of the first branch.
std::vector<bool> joined(const Capture& c) {
    std::vector<bool> before(c.nodes.size(), false);
    std::vector<int> next = c.branches[0].tail;
    while (!next.empty()) {
        const int node = next.back();
        next.pop_back();
        if (before[static_cast<std::size_t>(node)]) continue;
        before[static_cast<std::size_t>(node)] = true;
        const Node& n = c.nodes[static_cast<std::size_t>(node)];
        next.insert(next.end(), n.after.begin(), n.after.end());
    }
    return before;
}

void expect_joined(Runtime& r, const Capture& c) {
    const std::vector<bool> before = joined(c);
    for (std::size_t n = 0; n < c.nodes.size(); ++n)
        if (!before[n])
            r.stop("cudaStreamEndCapture in " + c.branches[0].stream->name +
                   ", which does not wait for '" + c.nodes[n].operation.name + "' of " +
                   c.branches[static_cast<std::size_t>(c.nodes[n].branch)].stream->name +
                   ": cudaErrorStreamCaptureUnjoined. Record an event there, and wait for it.");
}

}  // namespace

// "Stream Management": not in the default stream, and not twice. Another mode than the three is an
// invalid value.
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
    return call("cudaStreamBeginCapture", {}, [&](Runtime& r) {
        if (!is_mode(mode)) return cudaErrorInvalidValue;
        CUstream_st& s = r.stream_of(stream, "cudaStreamBeginCapture");
        if (s.is_default)
            r.stop("cudaStreamBeginCapture in the " + s.name + ", which cannot be captured.");
        if (s.capture)
            r.stop("cudaStreamBeginCapture in " + s.name + ", which is captured already.");
        static int number = 0;
        s.capture = std::make_shared<Capture>();
        s.capture->number = ++number;
        s.capture->mode = mode;
        s.capture->thread = std::this_thread::get_id();
        s.capture->branches.push_back({&s, {}});
        r.captures.push_back(s.capture);
        return cudaSuccess;
    });
}

// "Stream Management": in the stream where it began, by the same thread unless it is relaxed; all
// other streams of the capture must have been joined. With an earlier error of the device there is
// no graph, and the capture is over.
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
    return call("cudaStreamEndCapture", {.fails_with_device = false}, [&](Runtime& r) {
        if (graph == nullptr) return cudaErrorInvalidValue;
        CUstream_st& s = r.stream_of(stream, "cudaStreamEndCapture");
        if (!s.capture) r.stop("cudaStreamEndCapture in " + s.name + ", which is not captured.");
        const std::shared_ptr<Capture> c = s.capture;
        if (c->branches[0].stream != &s)
            r.stop("cudaStreamEndCapture in " + s.name + ", but the capture began in " +
                   c->branches[0].stream->name + ": cudaErrorStreamCaptureUnmatched.");
        if (c->mode != cudaStreamCaptureModeRelaxed && c->thread != std::this_thread::get_id())
            r.stop("cudaStreamEndCapture in " + s.name +
                   " by another thread than began it: cudaErrorStreamCaptureWrongThread.");
        const cudaError_t error = r.device_error(s.device);
        if (error == cudaSuccess) expect_joined(r, *c);
        for (const Capture::Branch& b : c->branches) b.stream->capture.reset();
        c->open = false;
        std::erase(r.captures, c);
        if (error != cudaSuccess) return error;
        CUgraph_st& g = r.graphs.emplace_back();
        g.name = "graph " + std::to_string(r.graphs.size());
        g.device = s.device;
        g.branch_devices.reserve(c->branches.size());
        for (const Capture::Branch& b : c->branches) g.branch_devices.push_back(b.stream->device);
        g.nodes = std::make_shared<const std::vector<Node>>(std::move(c->nodes));
        r.handles.insert(&g);
        *graph = &g;
        return cudaSuccess;
    });
}

// "Stream Management". In the default stream while a blocking stream is captured the runtime
// returns cudaErrorStreamCaptureImplicit; not here.
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
    return call("cudaStreamIsCapturing", {}, [&](Runtime& r) {
        if (status == nullptr) return cudaErrorInvalidValue;
        const CUstream_st& s = r.stream_of(stream, "cudaStreamIsCapturing");
        *status = s.capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
        return cudaSuccess;
    });
}

// "Stream Management": swaps the calling thread's mode.
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
    return call("cudaThreadExchangeStreamCaptureMode", {}, [&](Runtime& r) {
        if (mode == nullptr || !is_mode(*mode)) return cudaErrorInvalidValue;
        *mode = std::exchange(host_thread(r).mode, *mode);
        return cudaSuccess;
    });
}
