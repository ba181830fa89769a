// Bodies of trace.hpp.
#pragma once

#include <algorithm>  // sort, max
#include <cstddef>    // ptrdiff_t
#include <cstdint>    // int64_t
#include <cstdlib>    // abs
#include <map>        // messages
#include <tuple>      // order
#include <vector>     // in order

#include <fmt/core.h>  // numbers

#include <gx/io/json_text.hpp>  // json_quoted
#include <gx/trainer/trace.hpp>

namespace gx {

namespace detail::trace {

/// Writes events one by one.
class Writer {
public:
    explicit Writer(std::span<const Span> spans) {
        for (const Span& s : spans) {
            in_order_.push_back(&s);
            ranks_ = std::max(ranks_, s.rank + 1);
            if (s.message > 0) ends_[s.message] |= s.arrives ? 2 : 1;
        }
        // The whole before its parts, behind which it is recorded.
        std::ranges::sort(in_order_, {}, [&](const Span* s) {
            const bool nests = s->track == Track::compute || s->track == Track::communication;
            const std::ptrdiff_t place = s - spans.data();
            return std::tuple(s->rank, s->track, s->begin, s->begin - s->end,
                              nests ? -place : place);
        });
    }
    std::string text(const LinkRates& rates) {
        for (const Span* s : in_order_) add(*s);
        add(rates);
        return "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n" + text_ + "\n]}\n";
    }

private:
    /// The first network thread; more follow where messages overlap.
    static constexpr int network = static_cast<int>(Track::network);

    static std::string us(Nanoseconds t) {
        const auto ns = std::abs(t.count());
        return fmt::format("{}{}.{:03d}", t.count() < 0 ? "-" : "", ns / 1000, ns % 1000);
    }

    void event(const std::string& fields) {
        text_ += text_.empty() ? "{" : ",\n{";
        text_ += fields + "}";
    }
    void metadata(const char* kind, int pid, int tid, const std::string& args) {
        event(fmt::format("\"name\":\"{}\",\"ph\":\"M\",\"pid\":{},\"tid\":{},\"args\":{{{}}}",
                          kind, pid, tid, args));
    }
    void process(int pid, const std::string& name) {
        if (pid == process_) return;
        process_ = pid;
        thread_ = -1;
        lanes_.clear();
        metadata("process_name", pid, 0, fmt::format("\"name\":\"{}\"", name));
        metadata("process_sort_index", pid, 0, fmt::format("\"sort_index\":{}", pid));
    }
    void thread(int tid) {
        if (tid <= thread_) return;
        thread_ = tid;
        const std::string name = tid == 0         ? "compute"
                                 : tid == 1       ? "communication"
                                 : tid == network ? "network"
                                                  : fmt::format("network {}", tid - network + 1);
        metadata("thread_name", process_, tid, fmt::format("\"name\":\"{}\"", name));
        metadata("thread_sort_index", process_, tid, fmt::format("\"sort_index\":{}", tid));
    }
    /// The first network thread that is free from `s.begin` on.
    int lane(const Span& s) {
        std::size_t i = 0;
        while (i < lanes_.size() && lanes_[i] > s.begin) ++i;
        if (i == lanes_.size()) lanes_.push_back({});
        lanes_[i] = s.end;
        return network + static_cast<int>(i);
    }
    static std::string args(const Span& s) {
        const std::string index = s.index < 0 ? "" : fmt::format("\"index\":{}", s.index);
        const std::string bucket = s.bucket < 0 ? "" : fmt::format("\"bucket\":{}", s.bucket);
        const char* const between = index.empty() || bucket.empty() ? "" : ",";
        return fmt::format("\"args\":{{{}{}{}}}", index, between, bucket);
    }

    void add(const Span& s) {
        process(s.rank, fmt::format("rank {}", s.rank));
        if (s.track == Track::queue) return add_queued(s);
        const int tid = s.track == Track::network ? lane(s) : static_cast<int>(s.track);
        thread(tid);
        const bool instant = s.begin == s.end;
        const bool arrow = s.message > 0 && ends_[s.message] == 3;
        if (arrow && s.arrives && instant) add_arrow(s, tid, s.begin, "");  // to the next one
        event(fmt::format("\"name\":{},\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{},{}",
                          json_quoted(s.name.view()), s.rank, tid, us(s.begin), us(s.end - s.begin),
                          args(s)));
        if (arrow && !s.arrives) add_arrow(s, tid, s.begin, "");
        if (arrow && s.arrives && !instant)  // while it is still open
            add_arrow(s, tid, s.end - Nanoseconds(1), ",\"bp\":\"e\"");
    }
    /// A queue holds several buckets at once, so they are events of their own, not of a thread.
    void add_queued(const Span& s) {
        const std::string id = fmt::format("\"cat\":\"queue\",\"id\":\"0x{:x}\",\"name\":{},",
                                           ++queued_, json_quoted(s.name.view()));
        event(fmt::format("{}\"ph\":\"b\",\"pid\":{},\"tid\":1,\"ts\":{},{}", id, s.rank,
                          us(s.begin), args(s)));
        event(fmt::format("{}\"ph\":\"e\",\"pid\":{},\"tid\":1,\"ts\":{}", id, s.rank, us(s.end)));
    }
    void add_arrow(const Span& s, int tid, Nanoseconds at, const char* binding) {
        event(
            fmt::format("\"cat\":\"message\",\"id\":\"0x{:x}\",\"name\":\"message\","
                        "\"ph\":\"{}\",\"pid\":{},\"tid\":{},\"ts\":{}{}",
                        s.message, s.arrives ? 'f' : 's', s.rank, tid, us(at), binding));
    }
    void add(const LinkRates& rates) {
        if (rates.changes.empty()) return;
        process(ranks_, "links");
        for (const LinkRates::Change& c : rates.changes) {
            const std::string name = json_quoted(rates.names[std::size_t(c.link)].view());
            event(fmt::format("\"name\":{},\"ph\":\"C\",\"pid\":{},\"tid\":0,\"ts\":{},", name,
                              ranks_, us(c.at)) +
                  fmt::format("\"args\":{{\"bytes/s\":{}}}", c.rate.count));
        }
    }

    std::vector<const Span*> in_order_{};
    std::map<std::uint64_t, int> ends_{};  ///< of each message: 1 the send is there, 2 the receive
    std::vector<Nanoseconds> lanes_{};     ///< ends of the present rank's network threads
    std::string text_{};
    int ranks_ = 0, process_ = -1, thread_ = -1;
    int queued_ = 0;
};

}  // namespace detail::trace

GX_DECL std::string chrome_trace(std::span<const Span> spans, const LinkRates& rates) {
    return detail::trace::Writer(spans).text(rates);
}

}  // namespace gx
