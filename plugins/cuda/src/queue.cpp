#include <gx/cuda/queue.hpp>

#include <algorithm>  // min
#include <cstring>    // memcpy
#include <string>     // sentences
#include <thread>     // yield
#include <utility>    // exchange

#include <gx/core/contract.hpp>     // GX_EXPECT
#include <gx/cuda/error.hpp>        // expect
#include <gx/cuda/queued_call.hpp>  // queued_call

namespace gx::cuda {

namespace {
constexpr std::size_t line_bytes = 64;
constexpr std::size_t lines(std::size_t bytes) {
    return (bytes + line_bytes - 1) / line_bytes * line_bytes;
}
const QueueOptions& checked(const QueueOptions& o) {
    GX_EXPECT(o.events > 0, "a queue records at least one event");
    GX_EXPECT(
        o.staging_bytes > 0 && o.staging_bytes % line_bytes == 0 && o.graph_bytes % line_bytes == 0,
        "pinned memory is a multiple of 64 bytes");
    return o;
}
}  // namespace

// ---- DeviceContext -----------------------------------------------------------------------------

DeviceContext::DeviceContext(int device) : device_(device), resource_(device) {}

void DeviceContext::use() const { expect(cudaSetDevice(device_), "cudaSetDevice", device_); }

DeviceContext::Current::Current(int device) {
    expect(cudaGetDevice(&before_), "cudaGetDevice", device);
    const cudaError_t made = cudaSetDevice(device);
    if (made != cudaSuccess) (void)cudaSetDevice(before_);
    expect(made, "cudaSetDevice", device);
}
DeviceContext::Current::~Current() { (void)cudaSetDevice(before_); }

// ---- Queue -------------------------------------------------------------------------------------

Queue::Queue(DeviceContext& context, const Label& name, const QueueOptions& options)
    : context_(&context),
      name_(name),
      id_(static_cast<int>(context.queues_.size())),
      stream_(make_stream()),
      events_(static_cast<std::size_t>(checked(options).events)),
      stands_(events_.size()),
      staging_(make_pinned(options.staging_bytes + options.graph_bytes)),
      staging_bytes_(options.staging_bytes),
      pinned_bytes_(options.staging_bytes + options.graph_bytes),
      staged_(events_.size()),
      places_end_(options.staging_bytes),
      scratch_(&context.memory(), scratch_words, "scratch of kernels") {
    for (EventHandle& e : events_) e = make_event();
    context.queues_.push_back(this);
}

Queue::~Queue() {
    try {  // watched: messages of a rank that is missing end with it
        (void)reach(record().sequence);
    } catch (const Error&) {  // of the device, which its other calls throw too
    }
    context_->queues_[static_cast<std::size_t>(id_)] = nullptr;
    (void)cudaStreamSynchronize(stream());
}

void Queue::expect_done(cudaError_t result, const char* call) {
    if (result == cudaSuccess) return;
    drop_copies();
    expect(result, std::string(call) + " of queue '" + std::string(name_.view()) + "'",
           context_->device());
}

// ---- Events ------------------------------------------------------------------------------------

Event Queue::record_on(cudaStream_t where) {
    expect_takes_part();
    const std::size_t i = (recorded_ + 1) % events_.size();
    expect_done(
        queued_call(
            "cudaEventRecord", [&] { return cudaEventRecord(events_[i].get(), where); }, id_),
        "cudaEventRecord");
    stands_[i] = ++recorded_;
    return {recorded_, id_};
}

void Queue::stand_for(std::uint64_t sequence) {
    while (sequence < recorded_) stands_[++sequence % events_.size()] = recorded_;
}

void Queue::expect_takes_part() const {
    if (!pass_begin_) expect_no_graph("work of a queue beside");
}

void Queue::wait_for(Event e) {
    if (e.sequence == 0 || e.stream == id_) return;
    const auto of = static_cast<std::size_t>(e.stream);
    GX_EXPECT(e.stream >= 0 && of < context_->queues_.size(), "an event of this rank's queues");
    const Queue* const other = context_->queues_[of];
    if (other == nullptr) return;  // it has waited for its work
    GX_EXPECT(e.sequence <= other->recorded_, "an event that was recorded");
    expect_takes_part();
    if (pass_begin_) other->expect_takes_part();
    const std::uint64_t before = other->pass_begin_.value_or(0);
    if (e.sequence <= before) return;  // the whole graph is behind it
    const auto wait = [&] { return cudaStreamWaitEvent(stream(), other->event(e.sequence), 0); };
    expect_done(queued_call("cudaStreamWaitEvent", wait, id_, e.stream, e.sequence - before),
                "cudaStreamWaitEvent");
}

Delivery Queue::wait(Event e) {
    if (e.sequence == 0) return {};
    const auto of = static_cast<std::size_t>(e.stream);
    GX_EXPECT(e.stream >= 0 && of < context_->queues_.size(), "an event of this rank's queues");
    Queue* const other = context_->queues_[of];
    if (other == nullptr) return {};
    GX_EXPECT(e.sequence <= other->recorded_, "an event that was recorded");
    if (const Delivery d = other->reach(e.sequence); !d.complete()) {
        other->release_staged();
        for (Queue* const q : context_->queues_)
            if (q != nullptr) q->drop_copies();
        return d;
    }
    other->release_staged();
    for (Queue* const q : context_->queues_)
        if (q != nullptr && q != other) q->release_reached();
    return {};
}

bool Queue::reached(Event e) const {
    if (e.sequence == 0) return true;
    const Queue* const other = context_->queues_[static_cast<std::size_t>(e.stream)];
    if (other == nullptr || e.sequence <= other->reached_) return true;
    if (cudaEventQuery(other->event(e.sequence)) == cudaSuccess) return true;
    (void)cudaGetLastError();  // not ready, where a runtime keeps it: that of CUDA 13.0 does not
    return false;
}

void Queue::abandon() {
    context_->watch_ = {};
    if (cudaStreamSynchronize(stream()) == cudaSuccess) reached_ = recorded_;
    release_staged();
}

/// The host waits; from here on it knows that the event was reached.
Delivery Queue::reach(std::uint64_t sequence) {
    if (sequence <= reached_) return {};
    expect_no_graph("a wait of the host");
    if (!context_->watch_) {
        expect_done(cudaEventSynchronize(event(sequence)), "cudaEventSynchronize");
    } else {
        for (;;) {
            if (const Delivery d = context_->watch_(); !d.complete()) {
                // What was given up ends by itself.
                if (cudaEventSynchronize(event(sequence)) == cudaSuccess) reached_ = sequence;
                return d;
            }
            const cudaError_t result = cudaEventQuery(event(sequence));
            if (result == cudaSuccess) break;
            if (result != cudaErrorNotReady) expect_done(result, "cudaEventQuery");
            (void)cudaGetLastError();  // not ready, where a runtime keeps it
            std::this_thread::yield();
        }
    }
    reached_ = sequence;
    return {};
}

// ---- Copies ------------------------------------------------------------------------------------

/// What fits in the staging memory beside another part; all of it where that is possible.
std::size_t Queue::part_of(std::size_t bytes) const {
    return bytes <= staging_bytes_ ? bytes : (staging_bytes_ + 1) / 2;
}

void Queue::copy_in(std::span<const std::byte> from, void* to, const Operation& what) {
    for (auto* at = static_cast<std::byte*>(to); !from.empty();) {
        const std::size_t bytes = part_of(from.size()), begin = reserve(bytes, what);
        std::memcpy(staging_.get() + begin, from.data(), bytes);
        expect_done(
            cudaMemcpyAsync(at, staging_.get() + begin, bytes, cudaMemcpyHostToDevice, stream()),
            "cudaMemcpyAsync");
        stage({.begin = begin, .bytes = bytes});
        from = from.subspan(bytes);
        at += bytes;
    }
}

void Queue::copy_out(const void* from, std::span<std::byte> to, const Operation& what) {
    expect_takes_part();
    if (pass_begin_) return copy_out_in_graph(from, to);
    for (const auto* at = static_cast<const std::byte*>(from); !to.empty();) {
        const std::size_t bytes = part_of(to.size()), begin = reserve(bytes, what);
        expect_done(
            cudaMemcpyAsync(staging_.get() + begin, at, bytes, cudaMemcpyDeviceToHost, stream()),
            "cudaMemcpyAsync");
        stage({.begin = begin, .bytes = bytes, .target = to.data()});
        to = to.subspan(bytes);
        at += bytes;
    }
}

void Queue::copy_out_in_graph(const void* from, std::span<std::byte> to) {
    Place& p = place_for(to);
    std::byte* const at = staging_.get() + p.begin;
    const auto copy = [&] {
        return cudaMemcpyAsync(at, from, to.size(), cudaMemcpyDeviceToHost, stream());
    };
    expect_done(queued_call("cudaMemcpyAsync", copy, id_, at, from, to.size()), "cudaMemcpyAsync");
    p.sequence = record().sequence;
}

/// The one that it had, or a new one.
Queue::Place& Queue::place_for(std::span<std::byte> target) {
    for (Place& p : places_)
        if (p.target.data() == target.data() && p.target.size() == target.size()) return p;
    const std::size_t begin = places_end_, end = begin + lines(target.size());
    if (end > pinned_bytes_)
        throw NotRepeated("it copies more to the host than QueueOptions::graph_bytes, " +
                          std::to_string(pinned_bytes_ - staging_bytes_) + " bytes");
    places_end_ = end;
    return places_.emplace_back(target, begin);
}

void Queue::expect_copied(std::span<const std::byte> memory) const {
    const auto expect_apart = [&](const std::byte* target, std::size_t bytes) {
        const bool apart = target == nullptr || target + bytes <= memory.data() ||
                           memory.data() + memory.size() <= target;
        GX_EXPECT(apart, "the host reads the target of a copy that it did not wait for");
    };
    for (std::size_t i = 0; i < staged_count_; ++i) expect_apart(staged(i).target, staged(i).bytes);
    for (const Place& p : places_)
        if (p.sequence > 0) expect_apart(p.target.data(), p.target.size());
}

/// Begin of free staging memory; staging_bytes_: there is none in one piece.
std::size_t Queue::place(std::size_t bytes) const {
    if (staged_count_ == 0) return 0;
    if (staged_count_ == staged_.size()) return staging_bytes_;
    const std::size_t used = staged(0).begin;
    if (staging_end_ > used) {
        if (staging_bytes_ - staging_end_ >= bytes) return staging_end_;
        return used >= bytes ? 0 : staging_bytes_;
    }
    return used - staging_end_ >= bytes ? staging_end_ : staging_bytes_;
}

/// Staging memory of no copy; the host waits where there is none.
std::size_t Queue::reserve(std::size_t bytes, const Operation& what) {
    expect_no_graph("a copy from the host");
    for (;;) {
        if (const std::size_t begin = place(lines(bytes)); begin < staging_bytes_) return begin;
        if (const Delivery d = reach(staged(0).sequence); !d.complete()) {
            drop_copies();
            throw LostRank({.operation = "copying '" + std::string(what.what.view()) + "'"}, d);
        }
        release_staged();
    }
}

void Queue::stage(const Staged& part) {
    Staged& s = staged(staged_count_);
    s = part;
    s.sequence = record().sequence;
    ++staged_count_;
    staging_end_ = part.begin + lines(part.bytes);
}

/// Hands over what was copied by events that the host knows to be reached.
void Queue::release_staged() {
    for (; staged_count_ > 0 && staged(0).sequence <= reached_; --staged_count_) {
        const Staged& s = staged(0);
        if (s.target != nullptr) std::memcpy(s.target, staging_.get() + s.begin, s.bytes);
        oldest_ = (oldest_ + 1) % staged_.size();
    }
    for (Place& p : places_)
        if (p.sequence > 0 && p.sequence <= reached_) {
            std::memcpy(p.target.data(), staging_.get() + p.begin, p.target.size());
            p.sequence = 0;
        }
}

/// The event behind the first copy that is not handed over; 0: all are.
std::uint64_t Queue::oldest_copy_out() const {
    std::uint64_t oldest = 0;
    for (std::size_t i = 0; i < staged_count_ && oldest == 0; ++i)
        if (staged(i).target != nullptr) oldest = staged(i).sequence;
    for (const Place& p : places_)
        if (p.sequence > 0 && (oldest == 0 || p.sequence < oldest)) oldest = p.sequence;
    return oldest;
}

/// The same, for events of this queue that another queue's event may be behind.
void Queue::release_reached() {
    for (;;) {
        release_staged();
        const std::uint64_t out = oldest_copy_out();
        if (out == 0) return;
        if (recorded_ - out >= events_.size()) {  // its event means a later point by now
            if (!reach(out).complete()) return;
            continue;
        }
        const cudaError_t result = cudaEventQuery(event(out));
        if (result == cudaErrorNotReady) (void)cudaGetLastError();  // where a runtime keeps it
        if (result != cudaSuccess) return;
        reached_ = out;
    }
}

/// Memory of the host that waited for nothing may end; the copies still use the staging memory.
void Queue::drop_copies() {
    for (std::size_t i = 0; i < staged_count_; ++i) staged(i).target = nullptr;
    for (Place& p : places_) p.sequence = 0;
}

/// Those of the present graph, which does not run.
void Queue::drop_copies_of_graph() {
    for (Place& p : places_)
        if (pass_begin_ && p.sequence > *pass_begin_) p.sequence = 0;
}

}  // namespace gx::cuda
