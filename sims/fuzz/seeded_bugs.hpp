// Mutants that gx::testing lacks: a missing wait, a hang.
#pragma once

#include <cstddef>  // byte
#include <span>     // requests
#include <vector>   // forgotten waits

#include <gx/testing/mutants.hpp>  // Mutant

namespace gx::sim::fuzz {

/// A transport whose first wait of a receive returns at once; the message comes later.
template <class Link>
class Forgetful {
public:
    explicit Forgetful(Link& link) : link_(link) {}
    [[nodiscard]] int rank() const { return link_.rank(); }
    [[nodiscard]] int ranks() const { return link_.ranks(); }
    [[nodiscard]] Placement placement() const { return link_.placement(); }
    Request send(int to, int channel, std::span<const std::byte> message) {
        return link_.send(to, channel, message);
    }
    Request receive(int from, int channel, std::span<std::byte> message) {
        const Request request = link_.receive(from, channel, message);
        if (!has_) first_ = request, has_ = true;
        return request;
    }
    Delivery wait(Request request) { return wait_any({&request, 1}).delivery; }
    Arrival wait_any(std::span<const Request> requests) {
        for (std::size_t i = 0; has_ && !forgotten_ && i < requests.size(); ++i)
            if (requests[i].id == first_.id) {
                forgotten_ = true;
                return {i, {}};
            }
        return link_.wait_any(requests);
    }
    /// The memory it lands in must stay: here the message is waited for after all.
    void settle() {
        if (forgotten_) (void)link_.wait(first_);
    }

private:
    Link& link_;
    Request first_{};
    bool has_ = false, forgotten_ = false;
};

/// Uses its first message before it has arrived.
template <Reducer R>
struct ForgetAWait : testing::Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        Forgetful<std::remove_cvref_t<decltype(link)>> forgetful(link);
        const ReduceReport report = this->inner_.all_reduce(forgetful, bucket);
        forgetful.settle();
        return report;
    }
};

/// Retries forever when a rank has failed, without an error.
template <Reducer R>
struct HangSilently : testing::Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        for (;;) {
            const ReduceReport report = this->inner_.all_reduce(link, bucket);
            if (report.complete()) return report;
        }
    }
};

}  // namespace gx::sim::fuzz
