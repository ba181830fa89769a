// Mutants that gx::testing lacks: a missing wait, a hang.
#pragma once

#include <algorithm>  // fill
#include <cmath>      // floor
#include <cstddef>    // byte
#include <cstring>    // memcpy
#include <span>       // requests
#include <vector>     // forgotten waits

#include <fuzz/lossy.hpp>            // TopPercent
#include <gx/local_sgd/reducer.hpp>  // LocalSgd
#include <gx/sharded/reducer.hpp>    // Sharded
#include <gx/testing/mutants.hpp>    // Mutant

namespace gx::sim::fuzz {

/// A transport whose first wait of a receive returns at once; the message comes later.
template <class Link>
class Forgetful : public TransportOver<Link> {
public:
    using TransportOver<Link>::TransportOver;
    Request receive(int from, int channel, std::span<std::byte> message) {
        const Request request = this->under().receive(from, channel, message);
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
        return this->under().wait_any(requests);
    }
    /// The memory it lands in must stay: here the message is waited for after all.
    void settle() {
        if (forgotten_) (void)this->under().wait(first_);
    }

private:
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

// ---- Error feedback ---------------------------------------------------------------------------

/// Forgets the residual once its step is applied.
template <Reducer R>
struct DropResidual : testing::Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        return this->inner_.all_reduce(link, bucket);
    }
    void settle(std::uint64_t gradient, bool applied) {
        this->inner_.settle(gradient, applied);
        for (StateVector& v : this->inner_.state()) std::fill(v.values.begin(), v.values.end(), 0);
    }
};
/// Keeps the residual of a skipped step.
template <Reducer R>
struct KeepSkipped : testing::Mutant<R> {
    ReduceReport all_reduce(Transport auto& link, const Bucket& bucket) {
        return this->inner_.all_reduce(link, bucket);
    }
    void settle(std::uint64_t gradient, bool) { this->inner_.settle(gradient, true); }
};

// ---- Stochastic rounding ----------------------------------------------------------------------

/// Rounds down, whatever was drawn.
struct RoundsDown : gx::detail::quantized::BlockCodec<8> {
    using Base = gx::detail::quantized::BlockCodec<8>;
    static void encode(std::span<const float> values, std::int64_t offset, const Rng& draws,
                       std::span<std::byte> out) {
        Base::encode(values, offset, draws, out);
        for (std::size_t i = 0; i < values.size(); ++i) {
            std::byte* const message = out.data() + i / block_values * block_bytes;
            float s = 0;
            std::memcpy(&s, message, sizeof s);
            if (s > 0)
                message[sizeof s + i % block_values] =
                    static_cast<std::byte>(static_cast<int>(std::floor(values[i] / s)));
        }
    }
};
/// Sends each block with the step of the next one.
struct StepOfTheNextBlock : gx::detail::quantized::BlockCodec<8> {
    using Base = gx::detail::quantized::BlockCodec<8>;
    static void encode(std::span<const float> values, std::int64_t offset, const Rng& draws,
                       std::span<std::byte> out) {
        Base::encode(values, offset, draws, out);
        for (std::size_t b = 0; (b + 1) * block_values < values.size(); ++b)
            std::memcpy(out.data() + b * block_bytes, out.data() + (b + 1) * block_bytes, 4);
    }
};

// ---- Owners of the update ---------------------------------------------------------------------

/// Leaves the shards of the other ranks as they were.
template <Reducer R>
struct KeepOwnShard : Sharded<R> {
    using Sharded<R>::Sharded;
    ReduceReport updated(Transport auto&, const OwnedUpdate&) { return {}; }
};
/// Makes no mean at the end of an epoch.
template <Reducer R, int H>
struct ForgetLastMean : LocalSgd<R, H> {
    using LocalSgd<R, H>::LocalSgd;
    ReduceReport updated(Transport auto& link, OwnedUpdate made) {
        made.last = false;
        return LocalSgd<R, H>::updated(link, made);
    }
};

}  // namespace gx::sim::fuzz
