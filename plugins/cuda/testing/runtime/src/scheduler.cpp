// Queues: what runs, when, and what the race detector learns of it.
#include <algorithm>    // find, copy_if
#include <filesystem>   // threads
#include <iterator>     // distance
#include <string_view>  // labels
#include <utility>      // exchange, move

#include "state.hpp"

namespace gx::cuda_testing {

namespace {

using Kind = Operation::Kind;

/// Threads of the process: one that has not called the runtime yet may still queue what is missing.
int threads_of_process() {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return static_cast<int>(std::distance(begin(tasks), end(tasks)));
}

Label label(const std::string& text) { return std::string_view(text).substr(0, 63); }

class Running {
public:
    Running(Runtime& r, CUstream_st& s, const Operation& op) : r_(r) {
        r.running = &op;
        r.running_on = &s;
    }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
    ~Running() {
        r_.running = nullptr;
        r_.running_on = nullptr;
    }

private:
    Runtime& r_;
};

class Ends {
public:
    Ends(testing::RaceDetector& races, CUstream_st& s) : races_(races), s_(s) {}
    Ends(const Ends&) = delete;
    Ends& operator=(const Ends&) = delete;
    ~Ends() {
        races_.ended(s_.actor);
        ++s_.done;
    }

private:
    testing::RaceDetector& races_;
    CUstream_st& s_;
};

}  // namespace

std::string race_text(const std::string& sentence) {
    constexpr std::string_view rank = "race on rank 0: ";
    return sentence.starts_with(rank) ? "race: " + sentence.substr(rank.size()) : sentence;
}

// ---- Queueing --------------------------------------------------------------------------------

Point Runtime::enqueue(CUstream_st& to, Operation op) {
    races.queued(to.actor, host);
    ++to.queued;
    if (op.kind != Kind::order) to.last_name = op.name;
    for (const Use& use : op.uses) close_pinned(use);
    const Point& serial = devices[static_cast<std::size_t>(to.device)].serial;
    if (serial.stream != nullptr && serial.stream != &to) op.waits.push_back(serial);
    to.queue.push_back(std::move(op));
    const Point end = end_of(to);
    make_progress();
    return end;
}

void Runtime::push(CUstream_st& to, Operation op) {
    for (const Use& use : op.uses)
        expect_usable("'" + op.name + "' (" + to.name + ")", use, -1, When::queued);
    if (to.capture) {
        Capture& c = *to.capture;
        for (std::size_t b = 0; b < c.branches.size(); ++b) {
            Capture::Branch& branch = c.branches[b];
            if (branch.stream != &to) continue;
            c.nodes.push_back({std::move(op), static_cast<int>(b), std::move(branch.tail)});
            branch.tail = {static_cast<int>(c.nodes.size()) - 1};
        }
        return;
    }
    if (to.is_default || to.blocking) {  // Stream synchronization behavior: Legacy default stream
        for (CUstream_st& other : streams) {
            if (other.device != to.device || &other == &to || other.is_over) continue;
            if (!(to.is_default ? other.blocking : other.is_default)) continue;
            if (other.capture)
                stop("'" + op.name + "' in the default stream waits for " + other.name +
                     ", which is captured: cudaErrorStreamCaptureImplicit. Use a stream that was "
                     "created with cudaStreamNonBlocking.");
            if (other.queued > 0) op.waits.push_back(end_of(other));
            other.is_over = to.is_default && !other.ended_by.empty();
        }
    }
    enqueue(to, std::move(op));
}

// ---- Running ---------------------------------------------------------------------------------

bool Runtime::can_run(CUstream_st& s) {
    if (s.queue.empty()) return false;
    const Operation& head = s.queue.front();
    return std::ranges::all_of(head.waits, reached) && (!head.ready || head.ready());
}

void Runtime::execute(CUstream_st& s, Operation& op) {
    if (op.kind == Kind::transfer || op.kind == Kind::kernel) {
        if (next_operation.fires())
            devices[static_cast<std::size_t>(s.device)].sticky = next_operation.error;
    }
    if (device_error(s.device) != cudaSuccess) return;
    const std::string what = "'" + op.name + "' (" + s.name + ")";
    for (const Use& use : op.uses) {
        expect_usable(what, use, -1, When::runs);
        note(s.actor, use, op.name);
    }
    if (!op.run) return;
    counts.operations += op.kind != Kind::order;
    const Running now(*this, s, op);
    open_memory(s, op);
    op.run();
}

void Runtime::run_head(CUstream_st& s) {
    Operation op = std::move(s.queue.front());
    s.queue.pop_front();
    races.begun(s.actor);
    for (const Point& p : op.waits) races.waited(p.stream->actor, p.sequence, s.actor);
    const Ends ends(races, s);  // in the detector too where the operation throws
    execute(s, op);
    races.note(s.actor, Access::write, {&s.probe, 1}, {label(op.name)});
    now_ms += 0.001;
    wake();
}

void Runtime::add_needed(const Point& p, std::vector<CUstream_st*>& seen,
                         std::vector<CUstream_st*>& able) {
    if (reached(p) || std::ranges::find(seen, p.stream) != seen.end()) return;
    seen.push_back(p.stream);
    if (can_run(*p.stream)) {
        able.push_back(p.stream);
        return;
    }
    for (const Point& awaited : p.stream->queue.front().waits) add_needed(awaited, seen, able);
}

// Late: what the points need, in a drawn order; else, and where other work must come first (another
// library's), any stream.
CUstream_st* Runtime::choose(const std::vector<Point>& points) {
    std::vector<CUstream_st*> seen, able;
    if (options.progress == StreamProgress::late)
        for (const Point& p : points) add_needed(p, seen, able);
    if (able.empty())
        for (CUstream_st& s : streams)
            if (can_run(s)) able.push_back(&s);
    return able.empty() ? nullptr : able[draw(able.size())];
}

void Runtime::make_progress() {
    if (options.progress == StreamProgress::late) return;
    std::uint64_t left = options.progress == StreamProgress::eager ? ~std::uint64_t{0} : draw(4);
    for (; left > 0; --left) {
        CUstream_st* const next = choose({});
        if (next == nullptr) return;
        run_head(*next);
    }
}

bool Runtime::advance(const std::vector<Point>& points) {
    CUstream_st* const next = choose(points);
    if (next != nullptr) run_head(*next);
    return next != nullptr;
}

// Those that are woken do not wait from here on: what they wait for may be there.
void Runtime::wake() {
    if (waiting == 0) return;
    waiting = 0;
    ++wakes_;
    changed_.notify_all();
}

void Runtime::sleep(const std::string& call, FunctionRef<bool()> can_go_on) {
    close_memory();
    const bool all_wait = waiting + 1 >= threads_of_process();
    ++waiting;
    const std::uint64_t before = wakes_;
    const bool has_partners = extension && extension->take_messages();
    const auto end = std::chrono::steady_clock::now() + options.patience;
    bool able = false;
    if (has_partners) {
        while (wakes_ == before && !able && std::chrono::steady_clock::now() < end) {
            changed_.wait_for(mutex, std::chrono::milliseconds(1));
            able = extension->take_messages() && can_go_on();
        }
    } else if (!all_wait) {
        changed_.wait_for(mutex, options.patience);
    }
    const bool woken = wakes_ != before;
    if (!woken) --waiting;
    if (!woken && !stopped && !able && !can_go_on())
        stop("deadlock: " + call + " waits, and nothing can go on: " + stuck() + ".");
}

cudaError_t Runtime::wait(const std::vector<Point>& points, const std::string& call) {
    while (!std::ranges::all_of(points, reached)) {
        if (stopped) return cudaErrorUnknown;
        if (CUstream_st* const next = choose(points)) {
            run_head(*next);
            continue;
        }
        sleep(call, [&] { return choose(points) != nullptr; });
    }
    for (const Point& p : points) {
        host_saw(p);
        if (const cudaError_t error = device_error(p.stream->device); error != cudaSuccess)
            return error;
    }
    close_memory();
    open_pinned();
    return cudaSuccess;
}

std::string Runtime::stuck() {
    std::string text;
    for (const CUstream_st& s : streams) {
        if (s.queue.empty()) continue;
        const Operation& head = s.queue.front();
        text += (text.empty() ? "" : "; ") + s.name + " is at '" + head.name + "'";
        for (const Point& p : head.waits)
            if (!reached(p)) text += ", which waits for " + p.stream->name;
        if (head.awaited) text += head.awaited();
    }
    return text.empty() ? "all streams are empty" : text;
}

bool Runtime::host_knows(CUstream_st& s) {
    if (!s.queue.empty()) return false;
    try {
        races.note(host, Access::read, {&s.probe, 1}, {"wait of the host"});
    } catch (const testing::Race&) {
        return false;
    }
    return true;
}

void Runtime::drop_work(int device) {
    for (CUstream_st& s : streams) {
        if (s.device != device) continue;
        while (!s.queue.empty()) {
            races.begun(s.actor);
            races.ended(s.actor);
            ++s.done;
            s.queue.pop_front();
        }
    }
    if (extension) extension->work_dropped(device);
}

// ---- Memory of operations --------------------------------------------------------------------

void Runtime::expect_usable(const std::string& what, const Use& use, int device, When when) {
    if (use.bytes == 0) return;
    if (const std::string flaw = memory.flaw(use.begin, use.bytes); !flaw.empty()) {
        const Allocation* const a = memory.find(use.begin);
        const bool promised = a != nullptr && a->state == Allocation::State::promised;
        if (promised && when == When::queued && flaw.ends_with("has not run")) return;
        stop(what + (use.writes ? " writes " : " reads ") + flaw + ".");
    }
    const Allocation& a = *memory.find(use.begin);
    if (device >= 0 && !may_access(device, a))
        stop(what + (use.writes ? " writes " : " reads ") + a.name + " from device " +
             std::to_string(device) +
             ". Allocate it with that device current, or copy it with "
             "cudaMemcpyPeerAsync.");
}

bool Runtime::may_access(int device, const Allocation& a) const {
    return a.kind != Allocation::Kind::device || may_access(device, a.device);
}
bool Runtime::may_access(int device, int of) const {
    return of == device || devices[static_cast<std::size_t>(device)].peers.contains(of);
}

void Runtime::note(int actor, const Use& use, const std::string& what) {
    if (use.bytes == 0 || stopped) return;
    try {
        races.note(actor, use.writes ? Access::write : Access::read, {use.begin, use.bytes},
                   {label(what)});
    } catch (const testing::Race& e) {
        stop(race_text(e.what()));
    }
}

void Runtime::expect_unused(const Allocation& a, const std::string& call) {
    if (stopped || device_error(a.device) != cudaSuccess) return;  // its work is dropped
    if (a.state == Allocation::State::promised)
        stop(call + " of " + a.name + ", whose cudaMallocAsync has not run. Wait for it first.");
    for (const CUstream_st& s : streams)
        for (const Operation& op : s.queue)
            for (const Use& use : op.uses)
                if (use.begin >= a.begin && use.begin < a.begin + a.bytes)
                    stop(call + " of " + a.name + " while '" + op.name + "' (" + s.name +
                         ") is queued on it. Wait for the stream or an event behind it first.");
    note(host, {a.begin, a.bytes, true}, call);
}

void Runtime::close_pinned(const Use& use) {
    Allocation* const a = memory.find(use.begin);
    if (!options.watch_pinned || a == nullptr || a->kind != Allocation::Kind::pinned ||
        a->state != Allocation::State::live)
        return;
    const Use pages = Memory::pages_of(use);
    in_flight_.push_back(pages);
    const bool written = std::ranges::any_of(
        in_flight_, [&](const Use& other) { return other.writes && other.overlaps(pages); });
    set_pages(*a, pages, written ? Allocation::Page::closed : Allocation::Page::readable);
}

void Runtime::open_pinned() {
    if (in_flight_.empty()) return;
    Use all = in_flight_.front();  // from the first page in flight to the last
    for (const Use& pages : in_flight_) {
        const std::byte* const end = std::max(all.begin + all.bytes, pages.begin + pages.bytes);
        all.begin = std::min(all.begin, pages.begin);
        all.bytes = static_cast<std::size_t>(end - all.begin);
    }
    std::vector<Use> queued;
    for (const CUstream_st& s : streams)
        for (const Operation& op : s.queue)
            std::ranges::copy_if(op.uses, std::back_inserter(queued),
                                 [&](const Use& use) { return use.overlaps(all); });
    const auto is_queued = [&](const Use& pages) {
        return std::ranges::any_of(queued, [&](const Use& use) { return use.overlaps(pages); });
    };
    std::erase_if(in_flight_, [&](const Use& pages) {
        Allocation* const a = memory.find(pages.begin);
        if (a->state != Allocation::State::live) return true;
        if (is_queued(pages) || !races.is_ordered(host, Access::write, {pages.begin, pages.bytes}))
            return false;
        set_pages(*a, pages, Allocation::Page::open);
        return true;
    });
}

std::string Runtime::refused_access(const Allocation& a) {
    const std::string shortage = Memory::shortage();
    return "the access to pages of " + a.name +
           " can't change: " + (shortage.empty() ? "the system has no memory for it." : shortage);
}

void Runtime::set_pages(Allocation& a, const Use& pages, Allocation::Page access) {
    if (!Memory::set_pages(a, pages.begin, pages.bytes, access)) stop(refused_access(a));
}

void Runtime::open(Allocation& a, const Use& use) {
    if (a.kind == Allocation::Kind::device && !a.is_open) {
        if (!Memory::protect(a, true)) stop(refused_access(a));
        a.is_open = true;
        opened_.push_back(&a);
        opened_devices_.insert(a.device);
    }
    if (a.kind == Allocation::Kind::pinned && options.watch_pinned) {
        set_pages(a, use, Allocation::Page::open);
        opened_pinned_.push_back(use);
    }
}

// What earlier operations of the same call opened stays open, but for a host function, which may
// use no device's memory, and for work of a device that may not access it.
void Runtime::open_memory(const CUstream_st& s, const Operation& op) {
    const auto is_closed_to = [&](int of) { return !may_access(s.device, of); };
    if (op.kind == Kind::host_function || std::ranges::any_of(opened_devices_, is_closed_to))
        close_memory();
    for (const Use& use : op.uses)
        if (Allocation* const a = memory.find(use.begin)) open(*a, use);
}

void Runtime::close_memory() {
    for (Allocation* const a : opened_) {
        if (a->is_open) Memory::protect(*a, false);
        a->is_open = false;
    }
    opened_.clear();
    opened_devices_.clear();
    for (const Use& use : std::exchange(opened_pinned_, {})) close_pinned(use);
}

}  // namespace gx::cuda_testing
