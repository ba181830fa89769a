// CUDA Runtime API, "Stream Management" without captures; "Execution Control": host functions.
#include <algorithm>  // clamp

#include "state.hpp"

using namespace gx::cuda_testing;

namespace {

void refuse_captured(Runtime& r, const CUstream_st& s, const std::string& name) {
    if (s.capture)
        r.stop(name + " of " + s.name +
               " while it is captured: cudaErrorStreamCaptureUnsupported. End the capture first.");
}

template <class T>
cudaError_t give(T* to, T value) {
    if (to == nullptr) return cudaErrorInvalidValue;
    *to = value;
    return cudaSuccess;
}

cudaError_t create(Runtime& r, cudaStream_t* stream, unsigned int flags, int priority) {
    if (stream == nullptr) return cudaErrorInvalidValue;
    if (flags != cudaStreamDefault && flags != cudaStreamNonBlocking) return cudaErrorInvalidValue;
    const int device = host_thread(r).device;
    int number = 1;
    for (const CUstream_st& s : r.streams) number += !s.is_default && !s.is_branch;
    CUstream_st& s = r.make_stream(
        device, flags == cudaStreamDefault,
        "stream " + std::to_string(number) + " of device " + std::to_string(device), false);
    s.priority = std::clamp(priority, greatest_priority, least_priority);
    r.handles.insert(&s);
    *stream = &s;
    return cudaSuccess;
}

}  // namespace

// "Stream Management": with cudaStreamDefault.
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
    return call("cudaStreamCreate", {},
                [&](Runtime& r) { return create(r, stream, cudaStreamDefault, 0); });
}
// "Stream Management": of the current device. A cudaStreamDefault stream and the default stream
// wait for each other ("Stream synchronization behavior", Legacy default stream).
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
    return call("cudaStreamCreateWithFlags", {},
                [&](Runtime& r) { return create(r, stream, flags, 0); });
}
// "Stream Management": a priority is a hint, which changes no order here; one out of range counts
// as the nearest.
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int priority) {
    return call("cudaStreamCreateWithPriority", {},
                [&](Runtime& r) { return create(r, stream, flags, priority); });
}

// "Stream Management": how the stream was made.
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
    return call("cudaStreamGetPriority", {}, [&](Runtime& r) {
        return give(priority, r.stream_of(stream, "cudaStreamGetPriority").priority);
    });
}
cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned int* flags) {
    return call("cudaStreamGetFlags", {}, [&](Runtime& r) {
        const bool blocking = r.stream_of(stream, "cudaStreamGetFlags").blocking;
        return give(flags, blocking ? cudaStreamDefault : unsigned{cudaStreamNonBlocking});
    });
}
cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
    return call("cudaStreamGetDevice", {}, [&](Runtime& r) {
        return give(device, r.stream_of(stream, "cudaStreamGetDevice").device);
    });
}

// "Stream Management": queued work still runs, and the handle is void at once. Whether anybody
// waited for that work is asked at the end.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    return call("cudaStreamDestroy", {.frees = true}, [&](Runtime& r) {
        CUstream_st& s = r.stream_of(stream, "cudaStreamDestroy");
        if (s.is_default) r.stop("cudaStreamDestroy of the " + s.name + ", which is not created.");
        refuse_captured(r, s, "cudaStreamDestroy");
        s.ended_by = "cudaStreamDestroy";
        return cudaSuccess;
    });
}

// "Stream Management": returns an error of the work before.
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    return call("cudaStreamSynchronize", {}, [&](Runtime& r) {
        CUstream_st& s = r.stream_of(stream, "cudaStreamSynchronize");
        refuse_captured(r, s, "cudaStreamSynchronize");
        r.refuse_unsafe_in_capture("cudaStreamSynchronize");
        ++r.counts.host_synchronizations;
        return r.wait({Runtime::end_of(s)}, "cudaStreamSynchronize");
    });
}

// "Stream Management": cudaSuccess orders as cudaStreamSynchronize does. A poll runs an operation.
cudaError_t cudaStreamQuery(cudaStream_t stream) {
    return call("cudaStreamQuery", {}, [&](Runtime& r) {
        CUstream_st& s = r.stream_of(stream, "cudaStreamQuery");
        refuse_captured(r, s, "cudaStreamQuery");
        r.refuse_unsafe_in_capture("cudaStreamQuery");
        ++r.counts.queries;
        const Point end = Runtime::end_of(s);
        if (Runtime::reached(end)) return r.wait({end}, "cudaStreamQuery");
        r.advance({end});
        return cudaErrorNotReady;
    });
}

// "Execution Control": must not call the runtime, nor wait for outstanding work; is not called
// after an error of the device.
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
    return call("cudaLaunchHostFunc", {}, [&](Runtime& r) {
        CUstream_st& s = r.stream_of(stream, "cudaLaunchHostFunc");
        if (function == nullptr) return cudaErrorInvalidValue;
        if (const cudaError_t error = r.device_error(s.device); error != cudaSuccess) return error;
        ++r.counts.host_functions;
        r.push(s, {.name = "host function",
                   .kind = Operation::Kind::host_function,
                   .run = [function, data] { function(data); }});
        return cudaSuccess;
    });
}
