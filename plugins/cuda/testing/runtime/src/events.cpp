// CUDA Runtime API, "Event Management", and "Stream Management": cudaStreamWaitEvent.
#include <algorithm>  // find

#include "state.hpp"

using namespace gx::cuda_testing;

namespace {

/// The last record outside of captures, or a misuse.
const Recorded& record_of(Runtime& r, const CUevent_st& e, const std::string& name,
                          const std::string& otherwise =
                              "the runtime returns at once and waits "
                              "for nothing") {
    if (e.capture)
        r.stop(name + " of " + e.name +
               ", whose last record was captured: cudaErrorCapturedEvent. Record it in a stream "
               "that is not captured, or let streams of the capture wait for it.");
    if (!e.last)
        r.stop(name + " of " + e.name + ", which was never recorded: " + otherwise +
               ". Record it first.");
    return *e.last;
}

cudaError_t create(Runtime& r, cudaEvent_t* event, unsigned int flags) {
    if (event == nullptr) return cudaErrorInvalidValue;
    constexpr unsigned int between = cudaEventInterprocess | cudaEventDisableTiming;
    if ((flags & ~static_cast<unsigned int>(cudaEventBlockingSync)) == between)
        r.stop(
            "cudaEventCreateWithFlags with cudaEventInterprocess: this double has no events "
            "between processes.");
    constexpr unsigned int known = cudaEventBlockingSync | cudaEventDisableTiming;
    if ((flags & ~known) != 0) return cudaErrorInvalidValue;
    CUevent_st& e = r.events.emplace_back();
    e.device = host_thread(r).device;
    e.timing = (flags & cudaEventDisableTiming) == 0;
    e.name = "event " + std::to_string(r.events.size()) + " of device " + std::to_string(e.device);
    r.handles.insert(&e);
    *event = &e;
    return cudaSuccess;
}

cudaError_t record(Runtime& r, cudaEvent_t event, cudaStream_t stream, unsigned int flags) {
    CUevent_st& e = r.event_of(event, "cudaEventRecord");
    CUstream_st& s = r.stream_of(stream, "cudaEventRecord");
    if (const cudaError_t error = r.device_error(s.device); error != cudaSuccess) return error;
    const bool external = flags == cudaEventRecordExternal;
    if ((!external && flags != cudaEventRecordDefault) || (external && !s.capture))
        return cudaErrorInvalidValue;
    if (e.device != s.device)
        r.stop("cudaEventRecord of " + e.name + " in " + s.name +
               ": cudaErrorInvalidResourceHandle. Create the event with the stream's device "
               "current.");
    ++r.counts.event_records;
    if (external) {
        r.push(s, {.name = "record of " + e.name, .records = &e});
        return cudaSuccess;
    }
    e.capture = s.capture;
    if (s.capture) {
        for (const Capture::Branch& b : s.capture->branches)
            if (b.stream == &s) e.captured = b.tail;
        return cudaSuccess;
    }
    const auto record = std::make_shared<Recorded>();
    e.last = record;
    record->point = {&s, s.queued + 1};
    r.push(s, {.name = "record of " + e.name, .run = [record, &r] { record->time_ms = r.now_ms; }});
    return cudaSuccess;
}

}  // namespace

// "Event Management": of the current device; cudaEventCreate with cudaEventDefault.
cudaError_t cudaEventCreate(cudaEvent_t* event) {
    return call("cudaEventCreate", {},
                [&](Runtime& r) { return create(r, event, cudaEventDefault); });
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
    return call("cudaEventCreateWithFlags", {},
                [&](Runtime& r) { return create(r, event, flags); });
}

// "Event Management": may be destroyed before it is complete.
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    return call("cudaEventDestroy", {.frees = true}, [&](Runtime& r) {
        r.event_of(event, "cudaEventDestroy").ended_by = "cudaEventDestroy";
        return cudaSuccess;
    });
}

// "Event Management": event and stream must be of one device. In a capture it records the nodes so
// far, and no operation; with cudaEventRecordExternal it is a node, and each launch of the graph
// records the event. That flag is invalid outside of captures.
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags) {
    return call("cudaEventRecordWithFlags", {},
                [&](Runtime& r) { return record(r, event, stream, flags); });
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    return call("cudaEventRecord", {},
                [&](Runtime& r) { return record(r, event, stream, cudaEventRecordDefault); });
}

// "Stream Management": for the record that was the last one at the time of this call; the event may
// be of another device. Stricter than the manual, which makes a wait for an event that was never
// recorded no operation. cudaEventWaitExternal is invalid outside of captures, and is not in this
// double.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
    return call("cudaStreamWaitEvent", {}, [&](Runtime& r) {
        const std::string name = "cudaStreamWaitEvent";
        CUstream_st& s = r.stream_of(stream, name);
        CUevent_st& e = r.event_of(event, name);
        if (const cudaError_t error = r.device_error(s.device); error != cudaSuccess) return error;
        const bool external = flags == cudaEventWaitExternal;
        if ((!external && flags != cudaEventWaitDefault) || (external && !s.capture))
            return cudaErrorInvalidValue;
        if (external)
            r.stop(name + " with cudaEventWaitExternal in " + s.name +
                   ": this double has no nodes that wait for events.");
        ++r.counts.event_waits;
        if (!e.capture) {
            const Recorded& record = record_of(r, e, name);
            if (s.capture)
                r.stop(name + " in " + s.name + ", which is captured, of " + e.name +
                       ", which was recorded outside: cudaErrorStreamCaptureIsolation. Wait before "
                       "the capture, or before the graph is launched.");
            Operation op{.name = "wait for " + e.name};
            if (record.point.stream != &s) op.waits = {record.point};
            r.push(s, std::move(op));
            return cudaSuccess;
        }
        if (!e.capture->open)
            r.stop(name + " of " + e.name +
                   ", whose last record was in a capture that has ended: cudaErrorCapturedEvent.");
        if (s.is_default)
            r.stop(name + " in the " + s.name +
                   ", which cannot be captured: cudaErrorStreamCaptureImplicit.");
        if (s.capture && s.capture != e.capture)
            r.stop(name + " in " + s.name + " of " + e.name +
                   " would join two captures: cudaErrorStreamCaptureMerge.");
        if (!s.capture) {
            s.capture = e.capture;
            s.capture->branches.push_back({&s, e.captured});
            return cudaSuccess;
        }
        for (Capture::Branch& b : s.capture->branches)
            for (const int node : e.captured)
                if (b.stream == &s && std::ranges::find(b.tail, node) == b.tail.end())
                    b.tail.push_back(node);
        return cudaSuccess;
    });
}

// "Event Management": the host waits for the last record.
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    return call("cudaEventSynchronize", {}, [&](Runtime& r) {
        const CUevent_st& e = r.event_of(event, "cudaEventSynchronize");
        const Point point = record_of(r, e, "cudaEventSynchronize").point;
        r.refuse_unsafe_in_capture("cudaEventSynchronize");
        ++r.counts.host_synchronizations;
        return r.wait({point}, "cudaEventSynchronize");
    });
}

// "Event Management": cudaSuccess orders as cudaEventSynchronize does. A poll runs an operation.
cudaError_t cudaEventQuery(cudaEvent_t event) {
    return call("cudaEventQuery", {}, [&](Runtime& r) {
        const CUevent_st& e = r.event_of(event, "cudaEventQuery");
        const Point point = record_of(r, e, "cudaEventQuery").point;
        r.refuse_unsafe_in_capture("cudaEventQuery");
        ++r.counts.queries;
        if (Runtime::reached(point)) return r.wait({point}, "cudaEventQuery");
        r.advance({point});
        return cudaErrorNotReady;
    });
}

// "Event Management": needs timing and completed records on one device. Time is virtual here: a
// microsecond for each operation of any stream.
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
    return call("cudaEventElapsedTime", {}, [&](Runtime& r) {
        if (ms == nullptr) return cudaErrorInvalidValue;
        const std::string name = "cudaEventElapsedTime";
        const CUevent_st& a = r.event_of(start, name);
        const CUevent_st& b = r.event_of(end, name);
        for (const CUevent_st* const e : {&a, &b})
            if (!e->timing)
                r.stop(name + " of " + e->name +
                       ", which was created with cudaEventDisableTiming: "
                       "cudaErrorInvalidResourceHandle.");
        const std::string error = "cudaErrorInvalidResourceHandle";
        const Recorded &from = record_of(r, a, name, error), &to = record_of(r, b, name, error);
        if (a.device != b.device)
            r.stop(name + " of " + a.name + " and " + b.name +
                   ": cudaErrorInvalidResourceHandle. Compare events of one device.");
        if (!Runtime::reached(from.point) || !Runtime::reached(to.point)) return cudaErrorNotReady;
        *ms = static_cast<float>(to.time_ms - from.time_ms);
        return cudaSuccess;
    });
}
