// reduce(): the ranks' loop; check_outcome(): what holds after every reduction without a fault.
#pragma once

#include <algorithm>    // copy_n, max
#include <bit>          // bit_cast
#include <cmath>        // isnan
#include <cstdio>       // snprintf
#include <cstdlib>      // abs
#include <exception>    // a race, a lost rank
#include <type_traits>  // is_trivially_copyable_v
#include <utility>      // move

#include <gx/core/contract.hpp>     // GX_EXPECT
#include <gx/optimizer/finite.hpp>  // all_finite
#include <gx/testing/detail/reduce.hpp>

namespace gx::testing::detail {

GX_DECL ReduceReport reduce_in_buckets(AnyReducer& reducer, CheckedTransport& link,
                                       std::span<float> values, std::size_t length,
                                       std::uint64_t gradient, float loss_scale, int most) {
    if (length == 0) length = std::max(values.size(), std::size_t{1});
    ReduceReport sum;
    Bucket b;
    b.gradient = gradient;
    b.loss_scale = loss_scale;
    b.count = static_cast<int>(std::max((values.size() + length - 1) / length, std::size_t{1}));
    for (std::size_t end = values.size(); b.index < std::min(b.count, most) && sum.complete();
         ++b.index) {
        const std::size_t count = std::min(end, length);
        end -= count;
        b.values = values.subspan(end, count);
        b.offset = static_cast<std::int64_t>(end);
        const ReduceReport done = reducer.all_reduce(link, b);
        sum = {done.delivery, sum.bytes_sent + done.bytes_sent, sum.steps + done.steps};
    }
    return sum;
}

/// A row between values that no reducer may touch: NaNs, so that sums show who reads them.
class GuardedRow {
public:
    explicit GuardedRow(std::span<const float> row) : all_(row.size() + 2 * guard, untouched) {
        std::copy(row.begin(), row.end(), values().begin());
    }
    [[nodiscard]] std::span<float> values() {
        return std::span(all_).subspan(guard, all_.size() - 2 * guard);
    }
    /// Distance of the written value beside the row that is nearest to it: -1 is right before its
    /// first element, 1 right behind its last, 0: there is none.
    [[nodiscard]] int written_beside() const {
        const auto written = [](float x) {
            return std::bit_cast<std::uint32_t>(x) != std::bit_cast<std::uint32_t>(untouched);
        };
        for (std::size_t k = 0; k < guard; ++k) {
            if (written(all_[guard - 1 - k])) return -static_cast<int>(k) - 1;
            if (written(all_[all_.size() - guard + k])) return static_cast<int>(k) + 1;
        }
        return 0;
    }

private:
    static constexpr std::size_t guard = 256;
    static constexpr float untouched = std::bit_cast<float>(0x7fd5'a5a5u);

    std::vector<float> all_;
};

/// All vectors of a state, one after the other.
inline std::vector<float> flat(const StateList& state) {
    std::vector<float> out;
    for (const StateVector& v : state) out.insert(out.end(), v.values.begin(), v.values.end());
    return out;
}

/// Copies what one rank of Reductions holds to bytes, or from them.
class RankBytes {
public:
    explicit RankBytes(ByteVector bytes = {})
        : bytes_(std::move(bytes)), writing_(bytes_.empty()) {}

    template <class T>
        requires std::is_trivially_copyable_v<T>
    void move(T& value) {
        move(&value, sizeof(T));
    }
    template <class T>
    void move(std::vector<T>& values) {
        auto count = static_cast<std::uint64_t>(values.size());
        move(count);
        values.resize(count);
        move(values.data(), count * sizeof(T));
    }
    void move(MessageCounts& counts) {
        move(counts.messages), move(counts.bytes_sent);
        move(counts.lowest_channel), move(counts.highest_channel);
        move(counts.unfinished), move(counts.changed_in_flight);
        move(counts.events);
    }
    [[nodiscard]] ByteVector take() { return std::move(bytes_); }

private:
    void move(void* memory, std::size_t bytes) {
        auto* const there = static_cast<std::byte*>(memory);
        if (writing_) {
            bytes_.insert(bytes_.end(), there, there + bytes);
        } else {
            GX_EXPECT(at_ + bytes <= bytes_.size(), "a rank gives all that reduce() keeps of it");
            std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(at_), bytes, there);
            at_ += bytes;
        }
    }

    ByteVector bytes_;
    bool writing_;
    std::size_t at_ = 0;
};

/// Of each rank: whether a saved state had the length of its own, and where it wrote beside a row.
struct RankFinding {
    bool fits = true;
    int beside = 0;       ///< GuardedRow::written_beside()
    std::size_t job = 0;  ///< whose row
};

inline void move_rank(RankBytes& bytes, Reductions& out, std::vector<RankFinding>& found,
                      std::size_t rank) {
    for (Rows& rows : out.rows) bytes.move(rows[rank]);
    for (auto& reports : out.reports) bytes.move(reports[rank]);
    for (auto& traffic : out.traffic) bytes.move(traffic[rank]);
    for (Rows& residuals : out.residuals) bytes.move(residuals[rank]);
    bytes.move(out.states[rank]);
    bytes.move(found[rank]);
    if (rank == 0) bytes.move(out.replicated);
}

/// Gives what this process's rank has, if it ran one, to the processes of the others.
inline void gather(const AnyWorld& world, Placement placement, int mine, Reductions& out,
                   std::vector<RankFinding>& found) {
    RankBytes own;
    if (mine >= 0) move_rank(own, out, found, static_cast<std::size_t>(mine));
    const std::vector<ByteVector> all = world.gather(placement, own.take());
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
        if (all[rank].empty()) continue;  // the rank did not begin
        RankBytes theirs(all[rank]);
        move_rank(theirs, out, found, rank);
    }
}

GX_DECL bool state_is_as_long(const ReducerUnderTest& r, ConformanceReport& report) {
    const ReducePlan plan{.placement = {1, 2}, .elements = 64, .bucket_elements = 24};
    const auto probe = r.make();
    probe->reserve(plan);
    for (const StateVector& v : probe->state()) {
        if (!v.is_gradient || v.size() == std::size_t(plan.elements)) continue;
        report.add("state", "'" + std::string(v.name) + "' of state() has " +
                                std::to_string(v.size()) + " values of a gradient of " +
                                std::to_string(plan.elements) + " in buckets of " +
                                std::to_string(plan.bucket_elements) +
                                ". Fix: size it by plan.elements in reserve(), or leave "
                                "is_gradient false.");
        return false;
    }
    return true;
}

GX_DECL Reductions reduce(const ReducerUnderTest& r, const AnyWorld& world, Placement placement,
                          std::vector<Rows> jobs, ConformanceReport& report,
                          const ReduceOptions& options) {
    const auto ranks = static_cast<std::size_t>(placement.ranks());
    std::size_t largest = 0;
    for (const Rows& rows : jobs) {
        GX_EXPECT(rows.size() == ranks, "one row for each rank");
        largest = std::max(largest, rows[0].size());
    }
    Reductions out;
    ReduceReport not_run;  // of a rank that the world lost before it began, or stopped between
    not_run.delivery = {Delivery::Outcome::cancelled, -1};
    out.reports.assign(jobs.size(), std::vector<ReduceReport>(ranks, not_run));
    out.traffic.assign(jobs.size(), std::vector<MessageCounts>(ranks));
    if (options.keep_residuals) out.residuals.assign(jobs.size() + 1, Rows(ranks));
    out.states.resize(ranks);
    out.rows = std::move(jobs);
    out.bucket_elements = options.bucket_elements;
    const std::size_t cut = options.bucket_elements;
    const ReducePlan plan{
        .placement = placement,
        .elements = static_cast<std::int64_t>(largest),
        .bucket_elements = static_cast<std::int64_t>(cut > 0 ? std::min(cut, largest) : largest),
        .in_flight = options.in_flight,
        .seed = options.plan_seed};
    std::vector<RankFinding> found(ranks);
    int mine = -1;  // where the ranks are in several processes
    const auto work = [&](AnyRank& rank) {
        if (world.gather) mine = rank.rank();
        const auto me = static_cast<std::size_t>(rank.rank());
        CheckedTransport link(rank.transport, options.before_arrival);
        const auto reducer = r.make();
        reducer->reserve(plan);
        if (!options.states.empty()) {
            std::span<const float> saved = options.states[me];
            found[me].fits = flat(reducer->state()).size() == saved.size();
            for (const StateVector& v : reducer->state()) {
                if (!found[me].fits) break;
                std::copy_n(saved.begin(), v.values.size(), v.values.begin());
                saved = saved.subspan(v.values.size());
            }
        }
        const auto keep = [&](std::size_t job) {
            if (!options.keep_residuals) return;
            const auto residual = reducer->residual();
            out.residuals[job][me].assign(residual.begin(), residual.end());
        };
        std::vector<GuardedRow> rows;
        for (const Rows& job : out.rows) rows.emplace_back(job[me]);
        keep(0);
        const auto number = [&](std::size_t job) {
            return options.gradients.empty() ? std::uint64_t{job} : options.gradients[job];
        };
        for (std::size_t j = 0, settled = 0; j < out.rows.size(); ++j) {
            const std::uint64_t gradient = number(j);
            const float loss_scale = options.loss_scales.empty() ? 1 : options.loss_scales[j];
            if (rank.rank() == options.dead_rank && j == options.dead_from_job) {
                (void)reduce_in_buckets(*reducer, link, rows[j].values(), options.bucket_elements,
                                        gradient, loss_scale, options.dead_from_bucket);
                return;
            }
            out.reports[j][me] = reduce_in_buckets(*reducer, link, rows[j].values(),
                                                   options.bucket_elements, gradient, loss_scale);
            const bool complete = out.reports[j][me].complete();
            if (complete) link.settle();
            out.traffic[j][me] = link.take_traffic();
            if (!complete) break;
            // those that must be before the next one begins, behind the last one all
            for (; settled <= j; ++settled) {
                if (j + 1 < out.rows.size() &&
                    number(settled) + std::uint64_t(plan.in_flight) > number(j + 1))
                    break;
                reducer->settle(number(settled), all_finite(rows[settled].values()));
            }
            keep(j + 1);
        }
        // at the end, so that what was written to the memory of earlier gradients is seen
        for (std::size_t j = 0; j < rows.size(); ++j) {
            out.rows[j][me].assign(rows[j].values().begin(), rows[j].values().end());
            if (found[me].beside == 0)
                found[me].beside = rows[j].written_beside(), found[me].job = j;
        }
        const StateList state = reducer->state();
        out.states[me] = flat(state);
        if (me > 0) return;
        for (const StateVector& v : state)
            out.replicated.insert(out.replicated.end(), v.values.size(),
                                  v.scope == StateScope::replicated);
    };
    try {
        if (options.arrival) world.run_reordered(placement, *options.arrival, work);
        else world.run(placement, work);
    } catch (const std::exception& e) {
        report.add("exception", text(placement) + ": " + e.what());
        out.failed = true;
    }
    if (world.gather) gather(world, placement, mine, out, found);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
        const RankFinding& its = found[rank];
        out.state_fits = out.state_fits && its.fits;
        if (its.beside == 0) continue;
        report.add("bucket",
                   place(placement, out.rows[its.job][rank].size(), rank) + ": wrote to memory " +
                       std::to_string(std::abs(its.beside)) +
                       (its.beside < 0 ? " before the first" : " behind the last") +
                       " element of the gradient. Fix: keep to the values of the bucket.");
    }
    report.reductions += static_cast<std::int64_t>(out.rows.size());
    for (const auto& job : out.traffic)
        for (const MessageCounts& t : job) report.messages += t.messages;
    return out;
}

GX_DECL NotFinite spoil(Rows& rows, std::size_t k) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    constexpr float values[]{infinity, -infinity, std::numeric_limits<float>::quiet_NaN()};
    const NotFinite bad{.rank = k / 2 % rows.size(),
                        .element = (rows[0].size() - 1) * (k % 3) / 2,
                        .value = values[(k + k / 3) % 3]};
    rows[bad.rank][bad.element] = bad.value;
    return bad;
}

GX_DECL bool same_bits(std::span<const float> a, std::span<const float> b) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i)
        if (std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i])) return false;
    return true;
}

GX_DECL std::string other_bits(std::span<const float> row, std::span<const float> first) {
    std::size_t i = 0;
    while (same_bits({&row[i], 1}, {&first[i], 1})) ++i;
    const auto value = [i](std::span<const float> of) {
        char text[48];
        std::snprintf(text, sizeof text, "%.9g (bits %08x)", static_cast<double>(of[i]),
                      std::bit_cast<std::uint32_t>(of[i]));
        return std::string(text);
    };
    return ", element " + std::to_string(i) + ": " + value(row) + ", and " + value(first) +
           " on rank 0. Promise: all ranks end bitwise equal" +
           (std::isnan(row[i]) && std::isnan(first[i])
                ? ", NaNs too, and a + b has the bits of a where both are NaN. "
                  "Fix: add in the same order on all ranks, such as the lower rank's values first."
                : ".");
}

GX_DECL std::string number(double x) {
    char text[32];
    std::snprintf(text, sizeof text, "%.9g", x);
    return text;
}
GX_DECL std::string text(Placement p) {
    if (!p.regular())
        return std::to_string(p.ranks()) + " ranks on " + std::to_string(p.machines) + " machines";
    return std::to_string(p.machines) + " x " + std::to_string(p.ranks_per_machine) + " ranks";
}
GX_DECL std::string text(const NotFinite& bad) {
    return number(static_cast<double>(bad.value)) + " at element " + std::to_string(bad.element) +
           " of rank " + std::to_string(bad.rank);
}
GX_DECL std::string place(Placement p, std::size_t length, std::size_t rank) {
    return text(p) + ", length " + std::to_string(length) + ", rank " + std::to_string(rank);
}

inline void check_traffic(const ReducerUnderTest& r, const ReduceReport& reported,
                          const MessageCounts& t, const std::string& where,
                          ConformanceReport& report) {
    if (reported.bytes_sent != t.bytes_sent)
        report.add("traffic", where + ": bytes_sent is " + std::to_string(reported.bytes_sent) +
                                  ", and the rank sent " + std::to_string(t.bytes_sent) +
                                  ". Fix: count the bytes of every send.");
    if (t.messages > 0 && (t.lowest_channel < 0 || t.highest_channel >= r.channels))
        report.add("channels", where + ": messages on channels " +
                                   std::to_string(t.lowest_channel) + " to " +
                                   std::to_string(t.highest_channel) + ", and 'channels' is " +
                                   std::to_string(r.channels) +
                                   ". Fix: use the channels from 0 to channels - 1.");
    if (t.unfinished > 0)
        report.add("messages", where + ": " + std::to_string(t.unfinished) +
                                   " messages were posted and never waited for. "
                                   "Fix: wait for every request before all_reduce returns.");
    if (t.changed_in_flight > 0)
        report.add("messages", where + ": the memory of " + std::to_string(t.changed_in_flight) +
                                   " sends was written before their wait. "
                                   "Fix: wait for a send before writing to its memory.");
}

/// Reported steps are at least the rounds that were counted. They are those, or those of the plan,
/// where every chunk has an element and the reducer does not cut the bucket.
inline void check_steps(const ReducerUnderTest& r, const Reductions& out, std::size_t job,
                        Placement p, ConformanceReport& report) {
    for (const MessageCounts& t : out.traffic[job])
        if (t.lowest_channel < 0 || t.highest_channel >= r.channels) return;  // check_traffic's
    const auto elements = std::ssize(out.rows[job][0]);
    const auto most = out.bucket_elements > 0 ? std::int64_t(out.bucket_elements) : elements;
    const std::int64_t buckets =
        std::max((elements + most - 1) / std::max<std::int64_t>(most, 1), std::int64_t{1});
    const std::int64_t length = elements - (buckets - 1) * most;  // of the shortest bucket
    const int counted = message_rounds(out.traffic[job], r.channels);
    const bool cut = r.bucket_elements > 0 && std::min(most, elements) > r.bucket_elements;
    const int planned = r.scheduled_steps && !cut ? int(buckets) * r.scheduled_steps(p) : counted;
    const bool chunks_may_be_empty =
        !r.scheduled_steps && length < std::int64_t{8} * p.ranks() * r.channels;
    for (std::size_t rank = 0; rank < out.reports[job].size(); ++rank) {
        const int reported = out.reports[job][rank].steps;
        if (reported == counted || reported == planned) continue;
        if (reported > counted && (cut || chunks_may_be_empty)) continue;
        report.add(
            "traffic",
            place(p, out.rows[job][rank].size(), rank) + ": steps is " + std::to_string(reported) +
                ", and " + std::to_string(counted) + " message rounds were counted" +
                (planned == counted
                     ? ""
                     : ", " + std::to_string(planned) + " with the idle ones of the collective") +
                ". Fix: count the message rounds of the longest channel.");
    }
}

/// The rank that the last wait of `events` was for, which is the first that failed; -1: none.
inline int waited_for(std::span<const MessageEvent> events) {
    const MessageEvent* wait = nullptr;
    for (std::size_t i = events.size(); i-- > 0;) {
        const MessageEvent& e = events[i];
        if (e.kind == MessageEvent::Kind::waited) wait = wait ? wait : &e;
        else if (wait && e.request == wait->request) return e.peer;
    }
    return -1;
}

GX_DECL void check_outcome(const ReducerUnderTest& r, const Reductions& out, Placement p,
                           ConformanceReport& report) {
    if (out.failed) return;
    for (std::size_t j = 0; j < out.rows.size(); ++j) {
        for (std::size_t rank = 0; rank < out.rows[j].size(); ++rank) {
            const auto& row = out.rows[j][rank];
            report.values += std::ssize(row);
            const ReduceReport& reported = out.reports[j][rank];
            if (!reported.complete()) {
                int peer = reported.delivery.peer;
                if (reported.delivery.outcome == Delivery::Outcome::cancelled)
                    peer = waited_for(out.traffic[j][rank].events);  // `peer` is another rank's
                report.add(
                    "agreement",
                    place(p, row.size(), rank) + ": a reduction without a fault is incomplete" +
                        (peer < 0 ? std::string() : ", for want of rank " + std::to_string(peer)) +
                        ". Fix: let each rank post what others wait for before it waits "
                        "itself, and return the delivery of its own waits.");
                report.hangs = true;
                return;  // later ones were not made
            }
            if (!same_bits(row, out.rows[j][0]))
                report.add("agreement",
                           place(p, row.size(), rank) + other_bits(row, out.rows[j][0]));
            const MessageCounts& t = out.traffic[j][rank];
            if (reported.bytes_sent == t.bytes_sent && t.lowest_channel == 0 &&
                t.highest_channel < r.channels && t.unfinished + t.changed_in_flight == 0)
                continue;
            check_traffic(r, reported, t, place(p, row.size(), rank), report);
        }
        check_steps(r, out, j, p, report);
    }
}

}  // namespace gx::testing::detail
