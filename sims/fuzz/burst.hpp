// Burst: a star that posts all its messages at once, for what needs several of them on one lane.
#pragma once

#include <algorithm>  // min
#include <array>      // parts
#include <cstdint>    // int64_t
#include <span>       // bucket
#include <vector>     // what the others sent

#include <gx/reducer/concept.hpp>  // Reducer

namespace gx::sim::fuzz {

/// Every rank sends its bucket to rank 0 in four messages of one channel and takes the mean back
/// the same way. The other reducers wait for a message before they post the next on its lane, so
/// with them alone nothing could ever be overtaken.
/// Order: rank 0's own values, then those of rank 1, 2, ...
class Burst {
public:
    using wire_type = fp32;
    static constexpr int channels = 1;
    static constexpr int staleness = 0;
    static constexpr bool asynchronous = true;

    void reserve(const ReducePlan& plan) {
        others_.assign(static_cast<std::size_t>(plan.placement.ranks()),
                       std::vector<float>(static_cast<std::size_t>(plan.bucket_elements)));
    }
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        ReduceReport report{.steps = 2};
        if (link.ranks() == 1) return report;
        std::vector<Request> posted;
        const auto send = [&](int to) {
            for (const auto part : parts(bucket.values)) {
                posted.push_back(link.send(to, 0, std::as_bytes(part)));
                report.bytes_sent += static_cast<std::int64_t>(part.size_bytes());
            }
        };
        const auto receive = [&](int from, std::span<float> into) {
            for (const auto part : parts(into))
                posted.push_back(link.receive(from, 0, std::as_writable_bytes(part)));
        };
        const auto wait = [&] {  // for all of them, so that no message outlives its memory
            for (const Request r : posted) {
                const Delivery d = link.wait(r);
                if (report.delivery.complete()) report.delivery = d;
            }
            posted.clear();
            return report.complete();
        };
        if (link.rank() != 0) {
            send(0);
            if (!wait()) return report;
            receive(0, bucket.values);
            (void)wait();
            return report;
        }
        for (int r = 1; r < link.ranks(); ++r) receive(r, mine(r, bucket.size()));
        if (!wait()) return report;
        for (int r = 1; r < link.ranks(); ++r)
            for (std::size_t i = 0; i < bucket.size(); ++i) bucket[i] += mine(r, bucket.size())[i];
        for (float& x : bucket) x /= static_cast<float>(link.ranks());
        for (int r = 1; r < link.ranks(); ++r) send(r);
        (void)wait();
        return report;
    }
    StateList state() { return {}; }

private:
    [[nodiscard]] std::span<float> mine(int r, std::size_t count) {
        return std::span(others_[static_cast<std::size_t>(r)]).first(count);
    }
    [[nodiscard]] static std::array<std::span<float>, 4> parts(std::span<float> all) {
        std::array<std::span<float>, 4> out;
        for (std::size_t i = 0; i < 4; ++i)
            out[i] = all.subspan(all.size() * i / 4, all.size() * (i + 1) / 4 - all.size() * i / 4);
        return out;
    }
    std::vector<std::vector<float>> others_;
};

}  // namespace gx::sim::fuzz
