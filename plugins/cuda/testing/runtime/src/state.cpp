#include "state.hpp"

#include <unistd.h>  // write

#include <algorithm>     // max
#include <atomic>        // generations
#include <charconv>      // from_chars
#include <cstdlib>       // getenv, _Exit
#include <cstring>       // strlen
#include <string_view>   // the environment
#include <system_error>  // errc
#include <utility>       // move

#include "host_access.hpp"

namespace gx::cuda_testing {

namespace {

std::atomic<std::uint64_t> generations{0};

/// The state, and the check at the end of the process.
struct Holder {
    std::mutex mutex{};
    std::shared_ptr<Runtime> runtime{};

    ~Holder() {
        if (!runtime || !runtime->misuse.empty() || !runtime->options.check_at_exit) return;
        try {
            runtime->expect_clean();
        } catch (const Misuse& e) {
            const std::string text =
                "gx: at the end of the process: " + std::string(e.what()) + "\n";
            [[maybe_unused]] const auto written = ::write(2, text.data(), text.size());
            std::_Exit(1);
        }
    }
};
Holder& holder() {
    static Holder one;
    return one;
}

/// A whole number of the environment, or `otherwise` where it is not set.
std::uint64_t whole_number(const char* name, std::uint64_t otherwise) {
    const char* const text = std::getenv(name);
    if (text == nullptr) return otherwise;
    const char* const end = text + std::strlen(text);
    std::uint64_t value = 0;
    if (const auto [rest, error] = std::from_chars(text, end, value);
        error != std::errc() || rest != end)
        throw Error(std::string(name) + " is '" + text +
                    "': give a whole number from 0 to 18446744073709551615.");
    return value;
}

std::shared_ptr<Runtime> runtime_of(RuntimeOptions options) {
    options.seed += seed_shift();
    return std::make_shared<Runtime>(options);
}

}  // namespace

Runtime::Runtime(const RuntimeOptions& o)
    : options(o),
      generation(++generations),
      host(races.add_function(0, "host")),
      rng_(o.seed, "gx::cuda_testing::Runtime") {
    devices.resize(static_cast<std::size_t>(std::max(o.devices, 0)));
    for (int d = 0; d < o.devices; ++d) {
        CUstream_st& s =
            make_stream(d, true, "default stream of device " + std::to_string(d), false);
        s.is_default = true;
        devices[static_cast<std::size_t>(d)].default_stream = &s;
    }
    name_host_accesses();
}

std::shared_ptr<Runtime> the_runtime() {
    Holder& h = holder();
    const std::lock_guard lock(h.mutex);
    if (!h.runtime) h.runtime = runtime_of(options_from_environment());
    return h.runtime;
}
void replace_runtime(std::shared_ptr<Runtime> next) {
    Holder& h = holder();
    const std::lock_guard lock(h.mutex);
    h.runtime = std::move(next);
}

HostThread& host_thread(const Runtime& r) {
    thread_local HostThread mine;
    if (mine.generation != r.generation) mine = {.generation = r.generation};
    return mine;
}

// ---- Calls -----------------------------------------------------------------------------------

cudaError_t Runtime::lacking() const {
    if (options.driver_version < CUDART_VERSION) return cudaErrorInsufficientDriver;
    return devices.empty() ? cudaErrorNoDevice : cudaSuccess;
}

cudaError_t Runtime::device_error(int device) const {
    return devices[static_cast<std::size_t>(device)].sticky;
}

void Runtime::stop(const std::string& sentence) {
    if (misuse.empty()) misuse = sentence;
    if (!stopped) stopped_by = std::this_thread::get_id();
    stopped = true;
    wake();
    throw Misuse(sentence);
}

void Runtime::go_on() {
    stopped = false;
    for (int d = 0; d < static_cast<int>(devices.size()); ++d) drop_work(d);
    for (const auto& c : captures) {
        c->open = false;
        for (const Capture::Branch& b : c->branches) b.stream->capture.reset();
    }
    captures.clear();
    forget_pinned();
    for (CUstream_st& s : streams)
        races.note(host, Access::begin, {&s.probe, 1}, {"end of a stream"});
    for (Allocation* const a : memory.live()) {
        a->state = Allocation::State::live;  // also where its cudaMallocAsync was dropped
        const std::string name = a->name.substr(0, std::min<std::size_t>(a->name.find(" ("), 63));
        races.note(host, Access::begin, {a->begin, a->bytes}, {std::string_view(name)});
        if (a->kind == Allocation::Kind::pinned)
            set_pages(*a, {a->begin, a->bytes}, Allocation::Page::open);
    }
}

cudaError_t before_call(Runtime& r, const std::string& name, CallRules rules) {
    HostThread& thread = host_thread(r);
    if (r.stopped && !rules.frees) {
        const bool is_caught = r.running == nullptr && std::uncaught_exceptions() == 0;
        if (!is_caught || r.stopped_by != std::this_thread::get_id()) return cudaErrorUnknown;
        r.go_on();
    }
    if (r.running != nullptr)
        r.stop(name + " is called by '" + r.running->name +
               "': work of a stream must not call the runtime. Let it signal the host instead.");
    if (r.extension && !r.stopped) (void)r.extension->take_messages();
    if (const cudaError_t error = r.lacking(); error != cudaSuccess) return error;
    if (rules.unsafe_in_capture) r.refuse_unsafe_in_capture(name);
    const bool passes = rules.frees || !rules.fails_with_device;
    return passes ? cudaSuccess : r.device_error(thread.device);
}

cudaError_t finish_call(Runtime& r, cudaError_t error) {
    if (error != cudaSuccess && error != cudaErrorNotReady) host_thread(r).last_error = error;
    r.wake();
    return error;
}

// ---- Handles ---------------------------------------------------------------------------------

CUstream_st& Runtime::make_stream(int device, bool blocking, const std::string& name,
                                  bool is_branch) {
    CUstream_st& s = streams.emplace_back();
    s.device = device;
    s.blocking = blocking;
    s.name = name;
    s.is_branch = is_branch;
    s.actor = races.add_stream(host, std::string_view(name).substr(0, 63));
    races.note(host, Access::begin, {&s.probe, 1}, {"end of a stream"});
    return s;
}

CUstream_st& Runtime::stream_of(cudaStream_t handle, const std::string& call) {
    if (handle == nullptr || handle == cudaStreamLegacy)
        return *devices[static_cast<std::size_t>(host_thread(*this).device)].default_stream;
    if (handle == cudaStreamPerThread)
        stop(call + ": this double has no per-thread default stream. Create a stream.");
    if (!handles.contains(handle))
        stop(call + ": a stream that was never created, or before the last reset.");
    if (!handle->ended_by.empty())
        stop(call + ": " + handle->name + " was destroyed by " + handle->ended_by + ".");
    return *handle;
}

CUevent_st& Runtime::event_of(cudaEvent_t handle, const std::string& call) {
    if (!handles.contains(handle))
        stop(call + ": an event that was never created, or before the last reset.");
    if (!handle->ended_by.empty())
        stop(call + ": " + handle->name + " was destroyed by " + handle->ended_by + ".");
    return *handle;
}

// ---- The end ---------------------------------------------------------------------------------

std::string Runtime::leaks() {
    std::string names;
    int count = 0;
    const auto add = [&](const std::string& name) {
        if (++count <= 5) names += (count > 1 ? ", " : "") + name;
    };
    for (const Allocation* const a : memory.live()) add(a->name);
    for (const CUstream_st& s : streams)
        if (s.ended_by.empty() && !s.is_default && !s.is_branch) add(s.name);
    for (const CUevent_st& e : events)
        if (e.ended_by.empty()) add(e.name);
    for (const CUgraph_st& g : graphs)
        if (g.ended_by.empty()) add(g.name);
    for (const CUgraphExec_st& g : executables)
        if (g.ended_by.empty()) add(g.name);
    if (count > 5) names += " and " + std::to_string(count - 5) + " more";
    return names;
}

void Runtime::expect_clean() {
    if (!misuse.empty()) throw Misuse(misuse);
    for (const auto& c : captures)
        stop("capture " + std::to_string(c->number) + " in " + c->branches[0].stream->name +
             " was not ended. Call cudaStreamEndCapture, also on errors.");
    for (CUstream_st& s : streams)
        if (!s.is_branch && device_error(s.device) == cudaSuccess && !host_knows(s))
            stop(s.name + " has work that nobody waited for, the last of it '" + s.last_name +
                 "'. Synchronize with the stream, or with an event behind it.");
    if (extension)
        if (const std::string sentence = extension->leaks(); !sentence.empty()) stop(sentence);
    if (const std::string names = leaks(); !names.empty())
        stop("not released: " + names + ". Free and destroy what was created.");
}

// ---- The tests' side -------------------------------------------------------------------------

void misuse(const std::string& sentence) {
    const auto r = the_runtime();
    const std::lock_guard lock(r->mutex);
    r->stop(sentence);
}

RuntimeOptions options_from_environment() {
    RuntimeOptions o;
    o.seed = whole_number("GX_CUDA_SEED", o.seed);
    if (const char* const text = std::getenv("GX_CUDA_PROGRESS")) {
        const std::string_view progress(text);
        if (progress != "late" && progress != "eager" && progress != "random")
            throw Error("GX_CUDA_PROGRESS is '" + std::string(text) +
                        "': give late, eager or random.");
        o.progress = progress == "late"    ? StreamProgress::late
                     : progress == "eager" ? StreamProgress::eager
                                           : StreamProgress::random;
    }
    return o;
}

std::uint64_t seed_shift() { return whole_number("GX_CUDA_SEED_SHIFT", 0); }

void reset(const RuntimeOptions& options) { replace_runtime(runtime_of(options)); }

void expect_clean() {
    const auto r = the_runtime();
    const std::lock_guard lock(r->mutex);
    r->expect_clean();
}

std::string first_misuse() {
    const auto r = the_runtime();
    const std::lock_guard lock(r->mutex);
    return r->misuse;
}

}  // namespace gx::cuda_testing
