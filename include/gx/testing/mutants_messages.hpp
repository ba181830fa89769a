// Mutants that misuse messages: order of arrival, memory before its wait, channels, reports.
#pragma once

#include <cstddef>  // byte
#include <cstdint>  // int64_t
#include <span>     // messages
#include <vector>   // rows

#include <gx/core/transport.hpp>  // control_channel, TransportOver
#include <gx/testing/mutant.hpp>  // Mutant

namespace gx::testing {

namespace detail {

enum class StarBug { none, sums_in_order_of_arrival, reads_before_arrival, writes_before_sent };

/// The mean by a star, in float: rank 0 receives all rows, adds them up and sends the mean to all.
template <StarBug Bug>
ReduceReport reduce_by_star(Transport auto& link, std::span<float> bucket) {
    const int n = link.ranks();
    ReduceReport report{.steps = n > 1 ? 2 : 0};
    const auto keep = [&](Delivery d) {
        if (report.complete()) report.delivery = d;
    };
    const auto send = [&](int to) {
        report.bytes_sent += static_cast<std::int64_t>(bucket.size_bytes());
        return link.send(to, 0, std::as_bytes(bucket));
    };
    if (link.rank() != 0) {
        const Request sent = send(0);
        if constexpr (Bug == StarBug::writes_before_sent)
            for (float& x : bucket) x = -x;
        keep(link.wait(sent));
        if (report.complete()) keep(link.wait(link.receive(0, 0, std::as_writable_bytes(bucket))));
        return report;
    }
    std::vector<std::vector<float>> rows(static_cast<std::size_t>(n));
    std::vector<Request> open;
    std::vector<std::size_t> from;  // of each open request
    for (int r = 1; r < n; ++r) {
        auto& row = rows[static_cast<std::size_t>(r)];
        row.resize(bucket.size());
        open.push_back(link.receive(r, 0, std::as_writable_bytes(std::span(row))));
        from.push_back(static_cast<std::size_t>(r));
    }
    const auto add = [&](std::size_t r) {
        for (std::size_t i = 0; i < bucket.size(); ++i) bucket[i] += rows[r][i];
    };
    if constexpr (Bug == StarBug::reads_before_arrival)
        for (std::size_t r = 1; r < rows.size(); ++r) add(r);
    while (!open.empty()) {
        const Arrival arrival = link.wait_any(open);
        keep(arrival.delivery);
        if constexpr (Bug == StarBug::sums_in_order_of_arrival)
            if (report.complete()) add(from[arrival.index]);
        open.erase(open.begin() + static_cast<std::ptrdiff_t>(arrival.index));
        from.erase(from.begin() + static_cast<std::ptrdiff_t>(arrival.index));
    }
    if (!report.complete()) return report;
    if constexpr (Bug == StarBug::none || Bug == StarBug::writes_before_sent)
        for (std::size_t r = 1; r < rows.size(); ++r) add(r);
    for (float& x : bucket) x /= static_cast<float>(n);
    for (int r = 1; r < n; ++r) open.push_back(send(r));
    for (const Request sent : open) keep(link.wait(sent));
    return report;
}

template <Reducer R, StarBug Bug>
struct Star : Mutant<R> {
    using plan = void;  // not R's
    static constexpr int channels = 1;
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        return reduce_by_star<Bug>(link, bucket);
    }
};

/// A transport whose messages go on channels `by` higher.
template <Transport Link>
class ShiftedChannels : public TransportOver<Link> {
public:
    ShiftedChannels(Link& link, int by) : TransportOver<Link>(link), by_(by) {}
    Request send(int to, int channel, std::span<const std::byte> message) {
        return this->under().send(to, channel + by_, message);
    }
    Request receive(int from, int channel, std::span<std::byte> message) {
        return this->under().receive(from, channel + by_, message);
    }

private:
    int by_;
};

}  // namespace detail

/// A star without a bug, which the kit accepts: the control of the next three.
template <Reducer R>
using CorrectStar = detail::Star<R, detail::StarBug::none>;

/// Sums in the order in which messages arrive, so the bits depend on timing.
template <Reducer R>
using SumInOrderOfArrival = detail::Star<R, detail::StarBug::sums_in_order_of_arrival>;

/// Reads receive buffers before their wait.
template <Reducer R>
using ReadBeforeArrival = detail::Star<R, detail::StarBug::reads_before_arrival>;

/// Writes to a send buffer before its wait.
template <Reducer R>
using WriteBeforeSent = detail::Star<R, detail::StarBug::writes_before_sent>;

/// Uses channels `By` higher than announced; by default those of control messages.
template <Reducer R, int By = control_channel>
struct TalkOnOtherChannels : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        detail::ShiftedChannels shifted(link, By);
        return this->inner_.all_reduce(shifted, bucket);
    }
};

/// Reports -7 bytes and -1 steps.
template <Reducer R>
struct MisreportTraffic : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        return {this->inner_.all_reduce(link, bucket).delivery, -7, -1};
    }
};

/// Reports `More` steps more than there are, where there are any.
template <Reducer R, int More = 1>
struct CountOneStepTooMany : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        ReduceReport report = this->inner_.all_reduce(link, bucket);
        if (report.steps > 0) report.steps += More;
        return report;
    }
};

/// Posts a message to itself that it never waits for.
template <Reducer R>
struct LeaveMessageOpen : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        ReduceReport report = this->inner_.all_reduce(link, bucket);
        if (!report.complete()) return report;
        (void)link.send(link.rank(), 0, std::as_bytes(std::span(out_)));
        (void)link.receive(link.rank(), 0, std::as_writable_bytes(std::span(in_)));
        report.bytes_sent += static_cast<std::int64_t>(sizeof out_);
        report.steps += 1;
        return report;
    }

private:
    float out_[1] = {1}, in_[1] = {0};
};

/// Reports every reduction as complete.
template <Reducer R>
struct ClaimComplete : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        ReduceReport report = this->inner_.all_reduce(link, bucket);
        report.delivery = {};
        return report;
    }
};

/// Seeded bug: reports every reduction between machines as complete.
template <Reducer R>
struct ClaimCompleteBetweenMachines : Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        ReduceReport report = this->inner_.all_reduce(link, bucket);
        if (link.placement().machines > 1) report.delivery = {};
        return report;
    }
};

}  // namespace gx::testing
